"""Stamps: the writer's epoch and the step in the name of every file that tasks write.

They tell garbage from files of a step that is under way; the times of files would depend on the clocks of
several machines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_STAMP = re.compile(r"e(\d{8,})-b(\d{10,})\.(\d{4,})-")


class Stamp(NamedTuple):
    """Who writes a file, and in which step."""

    epoch: int
    batch: int
    step: int

    def __str__(self) -> str:
        return f"e{self.epoch:08d}-b{self.batch:010d}.{self.step:04d}"


def stamp_of(name: str) -> Stamp | None:
    """Return the stamp at the beginning of a file's name; None if there is none.

    >>> stamp_of("blocks/site-001/e00000002-b0000000012.0000-s003-orders-77.arrow")
    Stamp(epoch=2, batch=12, step=0)
    """
    found = _STAMP.match(name.rpartition("/")[2])
    return Stamp(int(found[1]), int(found[2]), int(found[3])) if found else None

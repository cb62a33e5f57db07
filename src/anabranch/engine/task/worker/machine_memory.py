"""The memory of this machine, or of the container that we are in, and the share of a slot's work."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

WORK_SHARE = 0.5
"""Of the machine's memory, what the work of all slots may keep; the rest is for Spark, state and input."""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's limit is, by version of control groups."""


def usual_work_memory(slots: int) -> int:
    """Bytes of the budget of one slot's work; 0 slots are one per core.

    Slots beyond the cores of a machine are on others, or wait for their turn.
    """
    cores = os.cpu_count() or 1
    return int(machine_memory() * WORK_SHARE) // min(slots or cores, cores)


@cache
def machine_memory() -> int:
    """Bytes that this process and its like can have at most."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *(limit for path in _LIMITS if (limit := _limit_in(path)))])


def _limit_in(path: Path) -> int | None:
    """The limit in a file of control groups; None if there is no such file, or no limit."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None

"""Queries that a test asks to come and go, also by a process that takes over from one that died."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.engine.local_driver import LocalRun
from anabranch.state import QueryStatus


def is_to_ask(run: LocalRun, batch: int, *, going: Iterable[str], coming: Iterable[str]) -> bool:
    """Whether queries are still to be asked to come and go with a batch.

    A process may have died after the batch, and before rows had entered that wait for those that go.
    """
    since = {s.name: s.since for s in run.loop.catalog.states if s.status is not QueryStatus.DROPPED}
    done = all(since.get(name, batch + 1) > batch for name in going)
    done = done and all(since.get(name) == batch + 1 for name in coming)
    return run.next_batch == batch or (run.next_batch == batch + 1 and not done)

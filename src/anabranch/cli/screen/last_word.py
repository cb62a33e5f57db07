"""The last word on a run: what it read, what was late or refused, and what still waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.adapt.events import Event, EventKind
from anabranch.cli.screen.figures import count
from anabranch.cli.stop_request import StopRequest
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateKind
from anabranch.state import Manifest, PosixStorage, QueryStatus, newest


def last_word(checkpoint: Path, queries: Sequence[Query], stop: StopRequest) -> Event:
    """How a run ended, with the counts of all its streams and queries."""
    manifest = newest(PosixStorage(checkpoint))
    if manifest is None:
        how = "there was nothing to read" if stop.signal is None else _stopped("before the first batch", stop)
        kind = EventKind.FINISHED if stop.signal is None else EventKind.STOPPED
        return Event(-1, kind, f"{how}; the same command continues from {checkpoint}")
    account = account_of(manifest)
    account["openWindows"] = _with_open_windows(manifest, queries)
    rows = f"{_number(account['rows'], 'row')} in all, {_refusals(account)}; {_waiting(account, queries)}"
    if stop.signal is not None:
        how = _stopped(f"after batch {manifest.batch}", stop)
        more = f"the same command continues from {checkpoint}"
        return Event(manifest.batch, EventKind.STOPPED, f"{how}: {rows}; {more}", account)
    more = f"last batch {manifest.batch}; the same command continues from {checkpoint} when there is more"
    return Event(
        manifest.batch, EventKind.FINISHED, f"everything available is processed: {rows}; {more}", account
    )


def account_of(manifest: Manifest) -> dict[str, Any]:
    """Rows of all streams since the checkpoint began."""
    streams = manifest.streams
    return {
        "rows": sum(s.accepted + s.late + s.rejected for s in streams),
        "late": sum(s.late for s in streams),
        "refused": sum(s.refused for s in streams),
        "rejected": sum(s.rejected for s in streams),
        "putOff": sum(b.rows for b in manifest.blocks if b.state.is_waiting),
        "waiting": {q.name: q.waiting for q in manifest.queries if q.status is QueryStatus.RUNNING},
    }


def _stopped(where: str, stop: StopRequest) -> str:
    assert stop.signal is not None
    return f"stopped {where} ({stop.signal.name})"


def _refusals(account: dict[str, Any]) -> str:
    kept = " (kept in dead_letters/)" if account["refused"] or account["rejected"] else ""
    return ", ".join(f"{count(account[kind])} {kind}" for kind in ("late", "refused", "rejected")) + kept


def _waiting(account: dict[str, Any], queries: Sequence[Query]) -> str:
    waiting = sum(account["waiting"].values())
    put_off = f"{_number(account['putOff'], 'row', 'wait')} to enter; " if account["putOff"] else ""
    windows = f"open windows of {', '.join(account['openWindows'])}" if account["openWindows"] else ""
    if not waiting:
        told = f"{windows} wait for later rows; --end-of-input emits them" if windows else "no results wait"
        return f"{put_off}{told}"
    fewer = any(
        account["waiting"].get(q.name) and (q.grouping.having or q.grouping.distinct)
        for q in queries
        if q.grouping is not None
    )
    results = ("up to " if fewer else "") + _number(waiting, "result", "wait")
    also = f", and so do {windows}" if windows else ""
    return f"{put_off}{results} for later rows{also}; --end-of-input emits them"


def _with_open_windows(manifest: Manifest, queries: Sequence[Query]) -> list[str]:
    """Queries with rows in a window of GROUP BY that is not over: how many windows, nobody has counted."""
    emitted = {q.name: q.emitted_us or 0 for q in manifest.queries if q.status is QueryStatus.RUNNING}
    windowed = {q.name for q in queries if q.grouping is not None and q.grouping.window is not None}
    found = {
        block.state.label
        for block in manifest.blocks
        if block.state.kind is StateKind.RESULTS
        and block.state.label in windowed & emitted.keys()
        and block.max_deadline >= emitted[block.state.label]
    }
    return sorted(found)


def _number(number: int, noun: str, verb: str = "") -> str:
    """A number of things, and what they do.

    >>> _number(1, "result", "wait"), _number(2, "result", "wait"), _number(0, "row")
    ('1 result waits', '2 results wait', '0 rows')
    """
    one = number == 1
    return f"{count(number)} {noun}{'' if one else 's'} {verb}{'s' if one and verb else ''}".rstrip()

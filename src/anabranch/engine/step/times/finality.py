"""When rows become final, and what the end of input means for those that have not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.newest_rows import Trim
from anabranch.operators.group.windows.window_rows import Condense
from anabranch.plan.local_plan import LocalPlan
from anabranch.state import KEEP_ALL, Manifest


def emissions_of(
    plans: Sequence[LocalPlan],
    watermarks: Mapping[str, int | None],
    emitted: Mapping[str, int],
    ahead: Mapping[str, Mapping[int, int]],
    owing: Mapping[str, frozenset[int]],
) -> dict[str, Emission]:
    """Per query with a window node the rows that become final in the next step.

    They lie between what was emitted before and the watermark that was committed last: all in blocks,
    because a row of the step itself is not below that watermark. The watermark of a join's results is the
    least of its streams': a new result has a row of the step, and so a time that is not below it either.

    Parameters
    ----------
    watermarks
        By stream, held back by rows that wait to enter a state.
    emitted, ahead
        By query: the time up to which it has emitted, and partitions that have emitted further.
    owing
        By state: partitions with rows in it that are not in memory in the next step.
    """
    emissions = {}
    for plan in plans:
        if plan.window is not None:
            since = emitted.get(plan.query.name, KEEP_ALL)
            until = [watermarks[stream] for stream in _streams(plan)]
            known = [w for w in until if w is not None]
            emissions[plan.query.name] = Emission(
                since,
                since if len(known) < len(until) else max(since, min(known)),
                ahead.get(plan.query.name, {}),
                owing.get(plan.window.state, frozenset()),
            )
    return emissions


def trims_of(plans: Sequence[LocalPlan], emissions: Mapping[str, Emission]) -> dict[str, Trim | Condense]:
    """What mergers keep of states that need only the newest rows of each group, or a row per window."""
    uses: dict[str, list[LocalPlan]] = {}
    for plan in plans:
        if plan.window is not None:
            uses.setdefault(plan.window.state, []).append(plan)
    trims: dict[str, Trim | Condense] = {}
    for state, readers in uses.items():
        nodes = [p.window for p in readers if p.window is not None]
        if nodes[0].grouped is not None:  # no other query reads its state
            trims[state] = Condense(nodes[0], emissions[readers[0].query.name])
            continue
        newest = [n.newest for n in nodes if n.newest is not None]
        if len(newest) == len(nodes):
            before = min(emissions[p.query.name].after()[0] for p in readers)
            trims[state] = Trim(nodes[0], max(newest), before)
    return trims


def pending_rows(manifest: Manifest, plans: Sequence[LocalPlan]) -> bool:
    """Whether rows wait to enter a state or to become final."""
    if any(block.state.is_waiting for block in manifest.blocks):
        return True
    newest = {s.name: s.max_ts for s in manifest.streams}
    emitted = {q.name: q.emitted_us for q in manifest.queries}
    for plan in plans:
        last, until = _last_instant(plan, newest), emitted.get(plan.query.name)
        if plan.window is not None and last is not None and (until is None or until <= last):
            return True
    return False


def results_due(manifest: Manifest, plans: Sequence[LocalPlan]) -> bool:
    """Whether watermarks have passed rows that no step has emitted."""
    watermarks = {s.name: s.watermark for s in manifest.streams}
    emitted = {q.name: q.emitted_us for q in manifest.queries}
    for plan in plans:
        marks = [watermarks.get(stream) for stream in _streams(plan)]
        if plan.window is None or None in marks:
            continue
        until = min(mark for mark in marks if mark is not None)
        given = emitted.get(plan.query.name)
        since = KEEP_ALL if given is None else given
        blocks = (b for b in manifest.blocks if b.state == plan.window.state)
        if since < until and any(b.min_ts < until and since <= b.max_ts for b in blocks):
            return True
    return False


def with_input_ended(manifest: Manifest, plans: Sequence[LocalPlan]) -> Manifest:
    """The manifest with every watermark behind the newest row: what comes later at or before it is late.

    Streams whose join is grouped end together, at the newest row of any of them: a row of one before that
    could still make a result that is older than what the others have made final. Streams of windows of
    GROUP BY end with the last window that has rows.
    """
    newest = {s.name: s.max_ts for s in manifest.streams}
    ends = dict(newest)
    for plan in plans:
        if plan.window is not None and (last := _last_instant(plan, newest)) is not None:
            for stream in _streams(plan):
                ends[stream] = max(last, ends.get(stream) or 0)
    streams = tuple(
        s if (end := ends[s.name]) is None else replace(s, watermark=max(end + 1, s.watermark or 0))
        for s in manifest.streams
    )
    return replace(manifest, streams=streams)


def _streams(plan: LocalPlan) -> set[str]:
    return {ref.stream for ref in plan.query.refs}


def _last_instant(plan: LocalPlan, newest: Mapping[str, int | None]) -> int | None:
    """The time up to which results of a plan may lie: the newest of its streams, or the end of its window."""
    last = max((t for s in _streams(plan) if (t := newest.get(s)) is not None), default=None)
    return last if last is None or plan.window is None else plan.window.last_instant(last)

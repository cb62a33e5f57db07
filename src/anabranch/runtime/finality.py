"""When rows become final, and what the end of input means for those that have not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.operators.final_rows import Emission
from anabranch.operators.newest_rows import Trim
from anabranch.plan.local_plan import LocalPlan
from anabranch.runtime.admission import is_waiting
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


def trims_of(plans: Sequence[LocalPlan], emissions: Mapping[str, Emission]) -> dict[str, Trim]:
    """Per state that needs only the newest rows of each group, which those are after the next step."""
    uses: dict[str, list[LocalPlan]] = {}
    for plan in plans:
        if plan.window is not None:
            uses.setdefault(plan.window.state, []).append(plan)
    trims = {}
    for state, readers in uses.items():
        nodes = [p.window for p in readers if p.window is not None]
        newest = [n.newest for n in nodes if n.newest is not None]
        if len(newest) == len(nodes):
            before = min(emissions[p.query.name].after()[0] for p in readers)
            trims[state] = Trim(nodes[0], max(newest), before)
    return trims


def pending_rows(manifest: Manifest, plans: Sequence[LocalPlan]) -> bool:
    """Whether rows wait to enter a state or to become final."""
    if any(is_waiting(block.state) for block in manifest.blocks):
        return True
    newest = {s.name: s.max_ts for s in manifest.streams}
    emitted = {q.name: q.emitted_us for q in manifest.queries}
    for plan in plans:
        last, until = _newest(plan, newest), emitted.get(plan.query.name)
        if plan.window is not None and last is not None and (until is None or until <= last):
            return True
    return False


def with_input_ended(manifest: Manifest, plans: Sequence[LocalPlan]) -> Manifest:
    """The manifest with every watermark behind the newest row: what comes later at or before it is late.

    Streams whose join is grouped end together, at the newest row of any of them: a row of one before that
    could still make a result that is older than what the others have made final.
    """
    newest = {s.name: s.max_ts for s in manifest.streams}
    ends = dict(newest)
    for plan in plans:
        if plan.window is not None and (last := _newest(plan, newest)) is not None:
            for stream in _streams(plan):
                ends[stream] = max(last, ends.get(stream) or 0)
    streams = tuple(
        s if (end := ends[s.name]) is None else replace(s, watermark=max(end + 1, s.watermark or 0))
        for s in manifest.streams
    )
    return replace(manifest, streams=streams)


def _streams(plan: LocalPlan) -> set[str]:
    return {ref.stream for ref in plan.query.refs}


def _newest(plan: LocalPlan, newest: Mapping[str, int | None]) -> int | None:
    """The newest time of the streams of a plan."""
    return max((t for s in _streams(plan) if (t := newest.get(s)) is not None), default=None)

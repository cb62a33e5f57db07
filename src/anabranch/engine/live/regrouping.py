"""Groups that are dissolved with a step, or are over: its outcome with another catalog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.sharing.group_worth import GroupMeasure, query_s
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.live.changed_queries import with_catalog
from anabranch.engine.reports import SlotReport
from anabranch.engine.step.manifests.step_outcome import StepOutcome
from anabranch.queries.catalog import Catalog
from anabranch.queries.grouping.dissolve import can_dissolve, groups_over, over_us, pays_anew, regrouped


def group_measures(catalog: Catalog, reports: Iterable[SlotReport]) -> dict[str, GroupMeasure]:
    """What groups did in a step that could be dissolved."""
    groups = {
        name: catalog.representatives[name]
        for name, group in catalog.groups.items()
        if group.ends is None and can_dissolve(catalog.representatives[name])
    }
    if not groups:
        return {}
    results, given = Counter[str](), Counter[str]()
    seconds, split_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for report in reports:
        for name in groups.keys() & report.given.keys():
            rows, took_s = report.represented.get(name, (0, 0.0))
            results[name] += rows
            split_s[name] += took_s
            given[name] += sum(rows for _, rows in report.given[name])
        for name in groups.keys() & report.query_s.keys():
            seconds[name] += report.query_s[name]
    failed = catalog.failed()
    return {
        name: GroupMeasure(
            max(1, len(catalog.groups[name].members.keys() - failed)),
            len(query.refs),
            results[name],
            given[name],
            seconds[name],
            split_s[name],
            catalog.groups[name].is_open,
        )
        for name, query in groups.items()
        if name not in failed
    }


def with_groups(outcome: StepOutcome, observed: Observed, is_over: IsOver) -> StepOutcome:
    """The outcome of a step after which groups are dissolved or over. No member's results change by it."""
    catalog, manifest, clocks = outcome.prepared.catalog, outcome.manifest, observed.clocks
    if not catalog.groups:
        return outcome
    over = groups_over(catalog, {name: clock.watermark for name, clock in clocks.items()})
    dissolved = _dissolved(outcome, clocks)
    if not over and not dissolved:
        return outcome
    anew = [name for name in dissolved if pays_anew(catalog, catalog.representatives[name])]
    after = regrouped(catalog, manifest, dissolved=dissolved, over=over, anew=anew)
    events = [
        _told(manifest.batch, name, observed.groups.get(name), observed, name in anew) for name in dissolved
    ]
    for name in over:
        message = f"{name} was dissolved, and no older row can have a result any more: it is over"
        events.append(Event(manifest.batch, EventKind.GROUP_OVER, message, {"group": name}))
    outcome = with_catalog(outcome, after, is_over)
    return replace(outcome, events=(*outcome.events, *events))


def _dissolved(outcome: StepOutcome, clocks: Mapping[str, StreamClock]) -> dict[str, int]:
    """Groups that are to be dissolved and can be now, and up to which event time they answer."""
    catalog, newest = outcome.prepared.catalog, {name: clock.newest for name, clock in clocks.items()}
    wanted = {*outcome.decisions.dissolved} - catalog.failed()
    found = {}
    for routed in catalog.layout.queries:
        name = routed.query.name
        if name not in wanted or name not in catalog.groups or catalog.groups[name].ends is not None:
            continue
        query = catalog.representatives[name]
        waiting = {catalog.layout.inputs[i].state.waiting for i in routed.inputs}
        held = query.stateless and any(b.state in waiting for b in outcome.manifest.blocks)
        alive = any(m not in catalog.failed() for m in catalog.groups[name].members)
        if can_dissolve(query) and alive and not held:
            found[name] = over_us(query, newest)
    return found


def _told(batch: int, name: str, measure: GroupMeasure | None, observed: Observed, anew: bool) -> Event:
    how = "form a narrower group" if anew else "run alone"
    why, data = "", {}
    if measure is not None:
        fixed_s = query_s(observed.settings.sites, observed.slots)
        alone_s, group_s = measure.alone_s(fixed_s), measure.group_s(fixed_s)
        why = (
            f": {measure.results:,} results of its representative for {measure.given:,} of members, "
            f"{1000 * group_s:,.1f} ms against {1000 * alone_s:,.1f} ms alone"
        )
        data = {
            "members": measure.members,
            "results": measure.results,
            "given": measure.given,
            "group_ms": round(1000 * group_s, 3),
            "alone_ms": round(1000 * alone_s, 3),
        }
    message = f"{name} is dissolved{why}. Its members {how} from batch {batch + 1} on"
    return Event(batch, EventKind.GROUP_DISSOLVED, message, {"group": name, "anew": anew, **data})

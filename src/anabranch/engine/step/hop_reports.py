"""What the slots did in all hops of a step, slot by slot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from anabranch.adapt.measures.site_report import DiffusionReport, StationReport
from anabranch.engine.reports import SiteReport, SlotReport


def critical_path_s(reports: Sequence[SlotReport]) -> float:
    """What a machine for every site would have waited for: of each hop, the busiest site."""
    busiest: dict[int, float] = {}
    for report in reports:
        for site in report.sites:
            busiest[report.hop] = max(busiest.get(report.hop, 0.0), site.busy_s)
    return sum(busiest.values())


def merged_hops(reports: Sequence[SlotReport]) -> tuple[SlotReport, ...]:
    """One report for each slot."""
    by_slot: dict[int, list[SlotReport]] = {}
    for report in sorted(reports, key=lambda r: r.hop):
        by_slot.setdefault(report.slot, []).append(report)
    return tuple(_merged(hops) for _, hops in sorted(by_slot.items()))


def _merged(hops: Sequence[SlotReport]) -> SlotReport:
    if len(hops) == 1:
        return hops[0]
    first, seconds = hops[0], defaultdict[str, float](float)
    for hop in hops:
        for phase, took_s in hop.seconds.items():
            seconds[phase] += took_s
    sites: dict[int, list[SiteReport]] = {}
    for site in (site for hop in hops for site in hop.sites):
        sites.setdefault(site.site, []).append(site)
    return SlotReport(
        slot=first.slot,
        streams=first.streams,
        sites=[_merged_site(reports) for reports in sites.values()],
        blocks=[block for hop in hops for block in hop.blocks],
        results=[file for hop in hops for file in hop.results],
        dead_letters=first.dead_letters,
        failures={query: why for hop in hops for query, why in hop.failures.items()},
        given=_given(hops),
        represented=_represented(hops),
        given_alone=dict(sum((Counter(hop.given_alone) for hop in hops), Counter[str]())),
        query_s=first.query_s,
        seconds=dict(seconds),
        packing_s=first.packing_s,
        arrived=first.arrived,
        heavy=first.heavy,
        keys=first.keys,
    )


def _merged_site(reports: Sequence[SiteReport]) -> SiteReport:
    """What a site did in all hops; the reports stay as they are, for they tell what each hop took."""
    if len(reports) == 1:
        return reports[0]
    stations, diffusion = dict[str, StationReport](), dict[str, DiffusionReport]()
    diffused_s, at_stations_s = defaultdict[str, float](float), defaultdict[str, float](float)
    waiting = defaultdict[str, int](int)
    for report in reports:
        for state, seen in report.stations.items():
            stations.setdefault(state, StationReport()).add(seen)
        for query, told in report.diffusion.items():
            diffusion.setdefault(query, DiffusionReport()).add(told)
        for query, seconds in report.diffused_s.items():
            diffused_s[query] += seconds
        for query, seconds in report.at_stations_s.items():
            at_stations_s[query] += seconds
        for query, rows in report.waiting.items():
            waiting[query] += rows
    return replace(
        reports[0],
        busy_s=sum(report.busy_s for report in reports),
        rows=sum(report.rows for report in reports),
        pairs=sum(report.pairs for report in reports),
        results=sum(report.results for report in reports),
        partitions=_added([report.partitions for report in reports]),
        stations=stations,
        diffusion=diffusion,
        diffused_s=dict(diffused_s),
        at_stations_s=dict(at_stations_s),
        waiting=dict(waiting),
    )


def _added(hops: Sequence[tuple[tuple[int, int, int], ...]]) -> tuple[tuple[int, int, int], ...]:
    rows, pairs = defaultdict[int, int](int), defaultdict[int, int](int)
    for partition, arrived, matched in chain.from_iterable(hops):
        rows[partition] += arrived
        pairs[partition] += matched
    return tuple((partition, rows[partition], pairs[partition]) for partition in sorted(rows))


def _represented(hops: Sequence[SlotReport]) -> dict[str, tuple[int, float]]:
    """By group, results and seconds in all hops."""
    found: dict[str, tuple[int, float]] = {}
    for hop in hops:
        for group, (rows, seconds) in hop.represented.items():
            before = found.get(group, (0, 0.0))
            found[group] = before[0] + rows, before[1] + seconds
    return found


def _given(hops: Sequence[SlotReport]) -> dict[str, list[tuple[str, int]]]:
    """By group, rows of its members in all hops."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for hop in hops:
        for group, given in hop.given.items():
            found[group].update(dict(given))
    return {group: list(counts.items()) for group, counts in found.items()}

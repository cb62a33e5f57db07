"""Homes: queries with little work run at one site each, large ones over all (COSMOS, chapter 6).

A query costs every site that works on it some tenths of a millisecond in every batch, and files of its own,
however few rows it has. So a *unit*, queries that share inputs or states, gets a home where its measured work
is small. For the first place of a unit, section 6.2.1 asks for little communication: rows pass the shuffle
once wherever they go, so that the site with the least to do is taken. From then on sites with little to do
ask their busiest partner for load (algorithm 6.2), and units move. What they keep lies where all sites can
read it: a move is a line in a table, and the boundary is the resume point.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.placement.load_request import LoadRequest, load_request
from anabranch.adapt.placement.partners import Partners
from anabranch.adapt.placement.selection import Placed, select
from anabranch.adapt.placement.workload import Workload

SMALL, LARGE = 1 / 32, 1 / 8
"""Of what a slot does on average: a unit with at most the first gets a home, one with more than the second
leaves it. Thirty-two units to a slot can be dealt out evenly."""
FEW = 32
"""Units below which nobody gets a home: they cost little, wherever they run."""
ROUND = 4
"""Batches from one decision to the next (Δ)."""
COLD = 3
"""Batches at the start that tell nothing: workers load and compile."""
ALPHA, KAPPA = 0.75, 1.2
MOST_PARTNERS = 5

Unit = tuple[str, ...]
"""Queries that run together or apart from all others."""


@dataclass(frozen=True, slots=True)
class Homes:
    """Who is at home where. Nothing of it must outlive a session: the next one measures anew.

    Attributes
    ----------
    site
        By query.
    load
        By query, CPU seconds of a batch, after the low-pass filter.
    workloads
        By site.
    ratio
        PR_max: the largest multiple of its own work that a query waits for.
    """

    site: Mapping[str, int] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    seen: int = 0
    ratio: float = 0.0


def choose_homes(
    homes: Homes,
    units: Sequence[Unit],
    query_s: Mapping[str, float],
    sites: Sequence[SiteReport],
    *,
    count: int,
    slots: int,
    batch: int,
) -> tuple[Homes, tuple[Event, ...]]:
    """Take note of a step, and every few steps choose who is at home where from the next one on.

    Parameters
    ----------
    units
        What may have a home.
    query_s, sites
        CPU seconds by query, and reports, of the step.
    count
        Sites from the next step on.
    """
    if not query_s or slots < 2:
        return homes, ()
    if homes.seen < COLD:
        return replace(homes, seen=homes.seen + 1), ()
    busy = [0.0] * count
    for report in sites:
        if report.site < count:
            busy[report.site] += report.busy_s
    load = {q: ALPHA * homes.load.get(q, s) + (1 - ALPHA) * s for q, s in query_s.items()}
    before = homes.workloads if len(homes.workloads) == count else tuple(Workload(b, b) for b in busy)
    workloads = tuple(w.after(b, alpha=ALPHA, kappa=KAPPA) for w, b in zip(before, busy, strict=True))
    known = {q for unit in units for q in unit}
    stay = {q: at for q, at in homes.site.items() if q in known and at < count}
    noted = Homes(stay, load, workloads, homes.seen + 1, _ratio(stay, query_s, busy))
    return _decided(noted, units, busy, slots, batch) if noted.seen % ROUND == 0 else (noted, ())


def _decided(
    homes: Homes, units: Sequence[Unit], busy: Sequence[float], slots: int, batch: int
) -> tuple[Homes, tuple[Event, ...]]:
    fair = sum(busy) / slots
    weight = {unit: sum(homes.load.get(q, 0.0) for q in unit) for unit in units}
    small = [u for u in units if u[0] not in homes.site and weight[u] <= SMALL * fair]
    left = [u for u in units if u[0] in homes.site and weight[u] > LARGE * fair]
    site = {q: at for q, at in homes.site.items() if not any(q in u for u in left)}
    events = []
    if small and (site or len(small) >= FEW):
        came = _dealt(small, weight, [w.value for w in homes.workloads])
        site |= came
        events.append(
            _told(batch, f"{len(small):,} small queries, or sets of them, run at one site each", site)
        )
    elif not left:
        moved = _moved(homes, [u for u in units if u[0] in site], weight)
        site |= moved
        if moved:
            events.append(_told(batch, f"{len(moved):,} small queries go to sites with less to do", site))
    if left:
        events.append(
            _told(batch, f"{len(left):,} queries are not small any more: they run over all sites", site)
        )
    return replace(homes, site=site), tuple(events)


def _dealt(units: Sequence[Unit], weight: Mapping[Unit, float], busy: Sequence[float]) -> dict[str, int]:
    """Where units are first placed: those with the most work first, each where there is least to do."""
    spread = sum(weight[u] for u in units) / len(busy)
    heap = [(max(b - spread, 0.0), site) for site, b in enumerate(busy)]
    heapq.heapify(heap)
    found: dict[str, int] = {}
    for unit in sorted(units, key=lambda u: (-weight[u], u)):
        so_far, site = heapq.heappop(heap)
        found |= dict.fromkeys(unit, site)
        heapq.heappush(heap, (so_far + weight[unit], site))
    return found


def _moved(homes: Homes, units: Sequence[Unit], weight: Mapping[Unit, float]) -> dict[str, int]:
    """Units that go to another home, because its site has asked for load."""
    partners = _partners(len(homes.workloads))
    requests: dict[int, list[LoadRequest]] = {}
    for site, workload in enumerate(homes.workloads):
        told = {other: homes.workloads[other].told for other in partners.of(site)}
        if (asked := load_request(site, workload.value, told, kappa=KAPPA)) is not None:
            requests.setdefault(asked.sender, []).append(asked)
    found: dict[str, int] = {}
    for sender, asking in requests.items():
        here = [(i, u) for i, u in enumerate(units) if homes.site[u[0]] == sender]
        placed = [Placed(i, weight[u], 1.0, sender, frozenset()) for i, u in here]
        for chosen, receiver in select(asking, placed, workload=homes.workloads[sender].value):
            found |= dict.fromkeys(units[chosen.fragment], receiver)
    return found


def _partners(sites: int) -> Partners:
    """With whom each site balances: the same whenever it is asked."""
    partners, rng = Partners(sites, MOST_PARTNERS, MOST_PARTNERS), random.Random(sites)
    for site in range(sites):
        partners.choose(site, (), rng)
    return partners


def _ratio(site: Mapping[str, int], query_s: Mapping[str, float], busy: Sequence[float]) -> float:
    """PR_max of a step (section 6.1): a query has waited for its site, or for all of them."""
    longest = max(busy, default=0.0)
    waits = ((busy[site[q]] if q in site else longest, s) for q, s in query_s.items() if s > 0)
    return max((d / p for d, p in waits), default=0.0)


def _told(batch: int, message: str, site: Mapping[str, int]) -> Event:
    return Event(batch, EventKind.HOMES_CHOSEN, message, {"at_home": len(site)})

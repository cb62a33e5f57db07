"""Sites with fragments, step by step: loads, queues, the network, and the policy of `adapt.placement`.

A step is one window τ of the paper. Rows of a stream come as a Poisson process. A site that is asked for more
than it can do falls behind; a row waits for what is before it, and as in any queue the longer the busier the
site is. Rows between sites share one network. Each site decides on its own, at the start of its own rounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from anabranch.adapt.placement.fragment import Fragment
from anabranch.adapt.placement.homecoming import Away, Host, called_home
from anabranch.adapt.placement.load_request import LoadRequest, average_workload, load_request
from anabranch.adapt.placement.partners import Partners, neighbouring_sites
from anabranch.adapt.placement.performance_ratio import Numbers, Paths
from anabranch.adapt.placement.relocation import Relocation, relocate
from anabranch.adapt.placement.selection import MOST_EXPORTED, Placed, Selection, select
from anabranch.adapt.placement.workload import Workload
from anabranch.operators.rows.arrays import Int64s
from anabranch.sim.placement.queries import ROW_BYTES, QueryLoad, fragments_of

WINDOW_S = 0.1
"""τ: length of a window of the workload."""
ROUND_S = 1.0
"""Δ: from one decision of a site to its next."""
KAPPA = 1.2
NETWORK_BYTES_PER_S = 100e6 / 8
LATENCY_S = 1e-4
DRAIN_S = 0.05
"""Until a site has worked off what it has of a fragment that leaves."""
FULL = 0.97
"""Utilisation from which on waiting is told by the backlog alone."""
OVERLOADED = 0.9
PROBES = 3

Disturbance = Callable[[float], tuple[Mapping[int, float], Mapping[int, float]]]
"""At a time: by site how many times its streams' usual rate, and its load by others."""


def undisturbed(_: float) -> tuple[Mapping[int, float], Mapping[int, float]]:
    return {}, {}


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """How sites balance their loads.

    Attributes
    ----------
    partners
        max_1: how many partners a site asks for, 0 for no balancing; it accepts half as many that ask it.
    alpha
        Of the low-pass filter.
    homecoming
        Whether sites call their own fragments home, which is not the paper's. Only the selection that knows
        the data flow does it.
    """

    partners: int = 5
    alpha: float = 0.9
    selection: Selection = Selection.DATA_FLOW_AWARE
    homecoming: bool = True

    @property
    def calls_home(self) -> bool:
        return self.homecoming and self.selection is Selection.DATA_FLOW_AWARE


STATIC = PlacementPolicy(partners=0)


@dataclass(slots=True)
class PlacementTrace:
    """What happened, by window."""

    time: list[float] = field(default_factory=list)
    ratios: list[Numbers] = field(default_factory=list)
    """PR by path."""
    deviation: list[float] = field(default_factory=list)
    """Standard deviation of the sites' workloads."""
    bytes_per_s: list[float] = field(default_factory=list)
    """Rows that travel between sites."""
    migrations: list[int] = field(default_factory=list)

    def largest_ratio(self, start: float = 0.0, end: float = float("inf")) -> float:
        """PR_max over some time: the mean PR of each query's rows, and the largest of these."""
        some = [r for t, r in zip(self.time, self.ratios, strict=True) if start - 1e-9 <= t < end - 1e-9]
        return float(np.mean(some, axis=0).max())

    def ratio_by_second(self, step_s: float = 1.0) -> list[float]:
        """PR_max of every second."""
        ends = np.arange(step_s, self.time[-1] + WINDOW_S + 1e-9, step_s)
        return [self.largest_ratio(float(end) - step_s, float(end)) for end in ends]

    def between(self, values: list[float] | list[int], start: float, end: float = float("inf")) -> float:
        """Mean of a quantity over some time."""
        return float(np.mean([v for t, v in zip(self.time, values, strict=True) if start <= t < end]))


class PlacementRun:
    """A cluster that runs the fragments of many queries."""

    def __init__(
        self, load: QueryLoad, policy: PlacementPolicy, disturbance: Disturbance = undisturbed
    ) -> None:
        self._load, self._policy, self._disturbance = load, policy, disturbance
        self.fragments, self._state_bytes = fragments_of(load)
        self._paths = Paths.of(self.fragments)
        self._native = load.native()
        self.site: Int64s = self._native[[f.stream for f in self.fragments]].copy()
        self._home = self.site.copy()
        self._work, self._out = _by_stream(self.fragments, load.streams)
        self._downstream = np.array([-1 if f.downstream is None else f.downstream for f in self.fragments])
        self._stream = np.array([f.stream for f in self.fragments])
        self._reads = np.array([f.reads_stream for f in self.fragments])
        self._upstream: dict[int, list[int]] = {}
        for number, after in enumerate(self._downstream.tolist()):
            self._upstream.setdefault(after, []).append(number)
        self._rng, self._random = np.random.default_rng(load.seed), random.Random(load.seed)
        self._offset = [self._random.randrange(round(ROUND_S / WINDOW_S)) for _ in range(load.sites)]
        self._partners = Partners(load.sites, policy.partners, ceil(policy.partners / 2))
        self._backlog = np.zeros(load.sites)
        self._network_backlog = 0.0
        start = self._loads(np.full(load.streams, load.rows_per_s))
        self._fragment_load = start
        sums = np.bincount(self.site, start, load.sites)
        self._workloads = [Workload(float(w), float(w)) for w in sums]
        self._exported = np.zeros(load.sites)
        self._moving: dict[int, Relocation] = {}
        self.trace = PlacementTrace()
        self._choose_partners()

    def run(self, until: float) -> PlacementTrace:
        """Go on to a time, in seconds."""
        for window in range(len(self.trace.time), round(until / WINDOW_S)):
            self._step(window)
        return self.trace

    def _step(self, window: int) -> None:
        now = window * WINDOW_S
        moved = self._balance(window, now) if self._policy.partners else 0
        faster, foreign = self._disturbance(now)
        usual = np.full(self._load.streams, self._load.rows_per_s)
        for site, times in faster.items():
            usual[self._native == site] *= times
        rates = self._rng.poisson(usual * WINDOW_S) / WINDOW_S
        loads = self._loads(rates)
        busy: Numbers = np.bincount(self.site, loads, self._load.sites).astype(np.float64)
        for site, share in foreign.items():
            busy[site] += share
        travelling = self._bytes(rates)
        self._backlog = np.maximum(self._backlog + (busy - 1) * WINDOW_S, 0)
        more = (travelling / NETWORK_BYTES_PER_S - 1) * WINDOW_S
        self._network_backlog = max(self._network_backlog + more, 0.0)
        self._fragment_load = self._policy.alpha * self._fragment_load + (1 - self._policy.alpha) * loads
        self._workloads = [
            w.after(float(b), alpha=self._policy.alpha, kappa=KAPPA)
            for w, b in zip(self._workloads, busy, strict=True)
        ]
        ratios = self._ratios(now, busy, rates, travelling)
        self._record(now, ratios, travelling, moved)

    def _loads(self, rates: Numbers) -> Numbers:
        return np.asarray(self._work @ rates) * self._load.work_share

    def _bytes(self, rates: Numbers) -> float:
        """Bytes a second between sites: streams to each site that reads them, and rows between fragments."""
        guests = self.site != self._home
        pairs = np.unique(np.stack([self._stream, self.site], axis=1)[guests & self._reads], axis=0)
        streams = rates[pairs[:, 0]].sum() if len(pairs) else 0.0
        flows = np.asarray(self._out @ rates)
        there = self._downstream >= 0
        apart = there & (self.site[self._downstream] != self.site)
        return float((streams + flows[apart].sum()) * ROW_BYTES)

    def _ratios(self, now: float, busy: Numbers, rates: Numbers, travelling: float) -> Numbers:
        came = np.zeros(self._load.sites)
        pairs = np.unique(np.stack([self._stream, self.site], axis=1), axis=0)
        np.add.at(came, pairs[:, 1], rates[pairs[:, 0]])
        share = np.minimum(busy, FULL)
        waits = self._backlog + share / (1 - share) * busy / np.maximum(came, 1.0)
        used = min(travelling / NETWORK_BYTES_PER_S, FULL)
        transfer = LATENCY_S + ROW_BYTES / NETWORK_BYTES_PER_S / (1 - used) + self._network_backlog
        self._moving = {f: m for f, m in self._moving.items() if m.waits(now)}
        stalled = np.zeros(len(self.fragments))
        for fragment, move in self._moving.items():
            stalled[fragment] = move.waits(now, WINDOW_S)
        return self._paths.ratios(
            self.site, self._native, wait_s=waits, transfer_s=transfer, stalled_s=stalled
        )

    def _balance(self, window: int, now: float) -> int:
        """Let the sites whose round begins call fragments home and ask for load; how many move."""
        rounds = round(ROUND_S / WINDOW_S)
        starting = [s for s in range(self._load.sites) if window % rounds == self._offset[s]]
        requests: dict[int, list[LoadRequest]] = {}
        moved = 0
        for site in starting:
            self._exported[site] = 0.0
            self._look_further(site)
            told = {other: self._workloads[other].told for other in self._partners.of(site)}
            if self._policy.calls_home:
                moved += self._call_home(site, told, now)
            asked = load_request(site, self._workloads[site].value, told, kappa=KAPPA)
            if asked is not None:
                requests.setdefault(asked.sender, []).append(asked)
        return moved + sum(self._serve(sender, asked, now) for sender, asked in requests.items())

    def _call_home(self, site: int, told: Mapping[int, float], now: float) -> int:
        away = [
            Away(n, float(self._fragment_load[n]), int(self._stream[n]), int(self.site[n]))
            for n in np.flatnonzero((self._home == site) & (self.site != site)).tolist()
            if n not in self._moving
        ]
        hosts = {a.site: self._host(a.site) for a in away}
        own = self._workloads[site].value
        come = list(called_home(away, hosts, workload=own, average=average_workload(own, told)))
        for one in come:
            self._move(one.fragment, one.load, site, now)
        return len(come)

    def _host(self, site: int) -> Host:
        gives = MOST_EXPORTED * self._at_start(site) - self._exported[site]
        return Host(self._workloads[site].value, float(gives))

    def _at_start(self, site: int) -> float:
        """The workload of a site at the start of its round."""
        return float(self._workloads[site].value + self._exported[site])

    def _look_further(self, site: int) -> None:
        """Where a site and all its partners are overloaded, find another partner."""
        its = (self._workloads[s].told for s in self._partners.of(site))
        if self._workloads[site].value > OVERLOADED and all(w > OVERLOADED for w in its):
            for other in self._random.sample(range(self._load.sites), PROBES):
                if other != site and self._workloads[other].told <= OVERLOADED:
                    self._partners.accepted[site].add(other)
                    self._partners.accepted[other].add(site)
                    return

    def _serve(self, sender: int, requests: list[LoadRequest], now: float) -> int:
        here = [n for n in np.flatnonzero(self.site == sender).tolist() if n not in self._moving]
        moves = list(
            select(
                requests,
                [self._placed(number) for number in here],
                workload=self._at_start(sender),
                exported=float(self._exported[sender]),
                how=self._policy.selection,
            )
        )
        for moved, receiver in moves:
            self._move(moved.fragment, moved.load, receiver, now)
        return len(moves)

    def _move(self, fragment: int, load: float, receiver: int, now: float) -> None:
        sender = int(self.site[fragment])
        self._exported[sender] += load
        self._shift(sender, -load)
        self._shift(receiver, load)
        self.site[fragment] = receiver
        self._moving[fragment] = relocate(
            fragment,
            sender=sender,
            receiver=receiver,
            now=now,
            drain_s=DRAIN_S,
            state_bytes=float(self._state_bytes[fragment]),
            bytes_per_s=NETWORK_BYTES_PER_S,
        )

    def _shift(self, site: int, load: float) -> None:
        """A site estimates its workload after a move (section 6.2.5)."""
        before = self._workloads[site]
        self._workloads[site] = replace(before, value=before.value + load, told=before.told + load)

    def _placed(self, number: int) -> Placed:
        neighbours = [int(self._downstream[number]), *self._upstream.get(number, ())]
        sites = frozenset(int(self.site[n]) for n in neighbours if n >= 0)
        return Placed(
            number,
            float(self._fragment_load[number]),
            float(self._state_bytes[number]),
            int(self._home[number]),
            sites,
        )

    def _choose_partners(self) -> None:
        pairs: Counter[tuple[int, int]] = Counter()
        for number, after in enumerate(self._downstream.tolist()):
            if after >= 0:
                pairs[int(self._home[number]), int(self._home[after])] += 1
        for site in range(self._load.sites):
            self._partners.choose(site, neighbouring_sites(site, pairs), self._random)

    def _record(self, now: float, ratios: Numbers, travelling: float, moved: int) -> None:
        trace = self.trace
        trace.time.append(now)
        trace.ratios.append(ratios)
        trace.deviation.append(float(np.std([w.value for w in self._workloads], ddof=1)))
        trace.bytes_per_s.append(travelling)
        trace.migrations.append(moved)


def _by_stream(fragments: list[Fragment], streams: int) -> tuple[np.ndarray, np.ndarray]:
    """By fragment and stream: CPU seconds, and rows to the neighbour below, for each row of the stream."""
    work, out = np.zeros((len(fragments), streams)), np.zeros((len(fragments), streams))
    for number, fragment in enumerate(fragments):
        for stream, seconds in fragment.work.items():
            work[number, stream] = seconds
        for stream, rows in fragment.out.items():
            out[number, stream] = rows
    return work, out

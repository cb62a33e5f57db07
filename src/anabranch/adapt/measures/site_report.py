"""What a site did in a batch: the measures that decisions start from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from anabranch.adapt.measures.statistics import Ints
from anabranch.exchange.address import PARTITIONS
from anabranch.plan.cost.edge_count import EdgeCount


@dataclass(slots=True)
class JoinReport:
    """What a query with more than one plan did at a site."""

    busy_s: float = 0.0
    probes: int = 0
    pairs: int = 0
    inserts: int = 0
    """Rows made for intermediate states."""
    settled: bool = True
    """Whether nothing but the plan's usual work was done: no rebuilding, no older track beside it."""
    new_rows: dict[str, int] = field(default_factory=dict)
    """By reference."""
    state_rows: dict[str, int] = field(default_factory=dict)
    edges: dict[frozenset[str], EdgeCount] = field(default_factory=dict)
    """By pair of references."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A plan that would have kept too much in a batch, and the one that took its place there."""

    query: str
    plan: str
    instead: str
    budget: int
    until: int | None = None
    """Of a track that ends."""


def _none() -> Ints:
    return np.zeros(PARTITIONS, dtype=np.int64)


@dataclass(slots=True, eq=False)
class StationReport:
    """What rows of some references did at a station where they need not have come, by partition.

    Attributes
    ----------
    arrived, found
        New rows, and the joined rows that they led to.
    stored, met
        Rows from earlier batches, and the joined rows to which new rows of the other side led with them.
    """

    arrived: Ints = field(default_factory=_none)
    found: Ints = field(default_factory=_none)
    stored: Ints = field(default_factory=_none)
    met: Ints = field(default_factory=_none)

    @classmethod
    def of_totals(cls, *, arrived: int, found: int, stored: int = 0, met: int = 0) -> StationReport:
        """A report in which one partition has everything."""
        report = cls()
        for values, total in zip(report.counts(), (arrived, found, stored, met), strict=True):
            values[0] = total
        return report

    def counts(self) -> tuple[Ints, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    def add(self, other: StationReport) -> None:
        for ours, theirs in zip(self.counts(), other.counts(), strict=True):
            ours += theirs


@dataclass(slots=True)
class DiffusionReport:
    """What a join with coordinated routing did at a site.

    Attributes
    ----------
    units
        By reference and segment: rows of the unit that are stored here, the oldest and the newest time.
    stored, sent
        Rows of streams that came, copies among them, and joined rows that went on to other sites.
    met
        By references that a join is about: pairs of rows that could have met, and those that did.
    """

    units: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    stored: int = 0
    sent: int = 0
    met: dict[frozenset[str], tuple[int, int]] = field(default_factory=dict)

    def add(self, other: DiffusionReport) -> None:
        self.units |= other.units
        self.stored += other.stored
        self.sent += other.sent
        for about, (examined, found) in other.met.items():
            before = self.met.get(about, (0, 0))
            self.met[about] = before[0] + examined, before[1] + found


@dataclass(slots=True)
class SiteReport:
    """What a site did in a batch. `busy_s` is CPU time: what its own machine would have needed."""

    site: int
    busy_s: float = 0.0
    rows: int = 0
    pairs: int = 0
    results: int = 0
    state_bytes: int = 0
    """State that it worked on."""
    rebuilt_rows: int = 0
    """Rows of states that it computed because its plan had changed."""
    rebuild_s: float = 0.0
    """Of `busy_s`, what that took."""
    copied_rows: int = 0
    """Rows that it took over from other sites, where sites share nothing."""
    copied_bytes: int = 0
    copy_s: float = 0.0
    """Of `busy_s`, what copying took: taking over here, packing at the site that the rows left."""
    passing_s: float = 0.0
    """Of `busy_s`, what queries without state took: their rows have no place that they belong to."""
    passing_results: int = 0
    """Of `results`, those of such queries."""
    partitions: tuple[tuple[int, int, int], ...] = ()
    """(partition, new rows, pairs) of the partitions that had any; rows that no state keeps do not count."""
    waiting: dict[str, int] = field(default_factory=dict)
    """By query with a grouping: rows that began to wait until they are final, less those that became so."""
    joins: dict[str, JoinReport] = field(default_factory=dict)
    """By query with more than one plan."""
    abandoned: list[Abandoned] = field(default_factory=list)
    stations: dict[str, StationReport] = field(default_factory=dict)
    """By state: rows that had a choice of stations."""
    split_s: float = 0.0
    """Of `busy_s`, what hot keys took whose rows are spread: it does not belong to a partition."""
    split_pairs: dict[str, int] = field(default_factory=dict)
    """Of `pairs`, theirs, by query."""
    diffused_s: dict[str, float] = field(default_factory=dict)
    """Of `busy_s`, what joins took whose rows a router spreads, by query."""
    diffusion: dict[str, DiffusionReport] = field(default_factory=dict)
    """By query with coordinated routing."""
    at_stations_s: dict[str, float] = field(default_factory=dict)
    """Of `busy_s`, what joins at stations took, by query."""

"""What slots report to the driver: the only thing that travels back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.state.block import BlockMeta
from anabranch.state.manifest import ResultFile


@dataclass(slots=True)
class StreamReport:
    """What a slot saw of a stream."""

    max_ts: int | None = None
    accepted: int = 0
    late: int = 0
    rejected: int = 0


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
    edges: dict[frozenset[str], tuple[int, int]] = field(default_factory=dict)
    """By pair of references: pairs of rows that could have met, and those that did, in a sample."""


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
    partitions: tuple[tuple[int, int, int], ...] = ()
    """(partition, new rows, pairs) of the partitions that had any."""
    joins: dict[str, JoinReport] = field(default_factory=dict)
    """By query with more than one plan."""


@dataclass(slots=True)
class SlotReport:
    slot: int
    streams: dict[str, StreamReport] = field(default_factory=dict)
    sites: list[SiteReport] = field(default_factory=list)
    blocks: list[BlockMeta] = field(default_factory=list)
    results: list[ResultFile] = field(default_factory=list)
    dead_letters: list[ResultFile] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """Message by query that exceeded its quota."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by phase."""
    packing_s: dict[int, float] = field(default_factory=dict)
    """CPU time by the site that should have packed what this slot took over: `charge_packing`."""


def charge_packing(reports: Sequence[SlotReport]) -> None:
    """Put packing on the account of the sites that rows have left; of a site that is gone, on none."""
    sites = {site.site: site for report in reports for site in report.sites}
    for report in reports:
        for source, seconds in report.packing_s.items():
            if source in sites:
                sites[source].busy_s += seconds
                sites[source].copy_s += seconds


def charge_writing(report: SlotReport, seconds: float) -> None:
    """Share what writing the results of a slot took among its sites, by their results."""
    results = sum(site.results for site in report.sites)
    for site in report.sites:
        site.busy_s += seconds * site.results / max(1, results)

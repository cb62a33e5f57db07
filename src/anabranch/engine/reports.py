"""What slots report to the driver: the only thing that travels back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from anabranch.adapt.eddy.tree_choice import KeyOf
from anabranch.adapt.measures.key_sketch import KeySketch
from anabranch.adapt.measures.site_report import Abandoned as Abandoned
from anabranch.adapt.measures.site_report import JoinReport as JoinReport
from anabranch.adapt.measures.site_report import SiteReport as SiteReport
from anabranch.adapt.measures.statistics import Floats
from anabranch.state.block import BlockMeta
from anabranch.state.manifest import ResultFile
from anabranch.state.stamp import Stamp


@dataclass(slots=True)
class StreamReport:
    """What a slot saw of a stream."""

    max_ts: int | None = None
    accepted: int = 0
    late: int = 0
    """Rows below the watermark, refused or not."""
    refused: int = 0
    """Of these, rows that queries with state wanted and did not get."""
    rejected: int = 0
    oldest_refused: int | None = None
    """The least event time of a refused row."""

    def with_more(self, other: StreamReport) -> StreamReport:
        """What was seen of the stream in two places."""
        newest = [ts for ts in (self.max_ts, other.max_ts) if ts is not None]
        oldest = [ts for ts in (self.oldest_refused, other.oldest_refused) if ts is not None]
        return StreamReport(
            max(newest, default=None),
            self.accepted + other.accepted,
            self.late + other.late,
            self.refused + other.refused,
            self.rejected + other.rejected,
            min(oldest, default=None),
        )


@dataclass(slots=True)
class SlotReport:
    slot: int
    hop: int = 0
    stamp: Stamp | None = None
    """The step that it is of."""
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
    arrived: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By input whose rows a router spreads: rows that came, and further copies of them."""
    heavy: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By state of an input, (hash, new rows) of keys that many rows have."""
    keys: dict[KeyOf, KeySketch] = field(default_factory=dict)
    """Of joins with cycles: sketches of the keys of new rows."""
    given: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By group, the members that have rows, and how many."""
    represented: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By group, results of its representative, and CPU seconds of splitting them."""
    given_alone: dict[str, int] = field(default_factory=dict)
    """Rows of queries that are in no group, and share a sink with others."""
    query_s: dict[str, float] = field(default_factory=dict)
    """CPU time by query, or group."""
    rewritten: set[str] = field(default_factory=set)
    """Names of blocks with rows that other blocks of the step have, too: merged, or copied."""


def check_reports(reports: Sequence[SlotReport], stamp: Stamp) -> None:
    """Refuse reports of another step, or two of one slot: their rows would be counted twice."""
    ran = [(report.hop, report.slot) for report in reports]
    assert len(set(ran)) == len(ran), f"slots have reported twice: {ran}"
    others = {report.stamp for report in reports} - {stamp}
    assert not others, f"step {stamp} was given reports of {others}"


def charge_packing(reports: Sequence[SlotReport]) -> None:
    """Put packing on the account of the sites that rows have left; of a site that is gone, on none."""
    sites = {site.site: site for report in reports if not report.hop for site in report.sites}
    for report in reports:
        for source, seconds in report.packing_s.items():
            if source in sites:
                sites[source].busy_s += seconds
                sites[source].copy_s += seconds


def charge_shared(report: SlotReport, seconds: float, rows: Floats, site_of: npt.NDArray[Any]) -> None:
    """Share what was made of kept rows for all sites of a slot among them, by the rows that they keep.

    Parameters
    ----------
    rows
        By partition.
    """
    mine = {site.site: float(rows[site_of == site.site].sum()) for site in report.sites}
    for site in report.sites:
        site.busy_s += seconds * mine[site.site] / (sum(mine.values()) or 1.0)


def charge_writing(report: SlotReport, seconds: float, *, passing_s: float = 0.0) -> None:
    """Share what writing the results of a slot took among its sites, by their results.

    Parameters
    ----------
    seconds, passing_s
        For queries with a state, and for those without.
    """
    passing = sum(site.passing_results for site in report.sites)
    lasting = sum(site.results for site in report.sites) - passing
    for site in report.sites:
        passed_s = passing_s * site.passing_results / max(1, passing)
        site.passing_s += passed_s
        site.busy_s += passed_s + seconds * (site.results - site.passing_results) / max(1, lasting)

"""Queries that are at home at one site: each such site is a step of its own, with one site and one slot.

    a slot   rows by partition ─► its sites, all queries over all        ┐
             rows of inputs at home here ─► one site, the queries there  ├─► one report
             …                                                           ┘

The parts of a step share no input and no state, so that each is exact by itself. Homes may change at any
boundary: blocks are the same files wherever they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.reports import SiteReport, SlotReport
from anabranch.engine.task.arrival.wire import TAG
from anabranch.engine.task.blocks.step_blocks import StepBlocks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.router import INPUT_MASK
from anabranch.plan.inputs import Layout

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

_ONE_SITE, _NO_TRACKS = PartitionMap.even(1), Tracks({})


@dataclass(frozen=True, slots=True)
class HomeParts:
    """Which queries, and so which inputs, are at home where.

    Attributes
    ----------
    apart
        Queries that are not the over-all part's.
    others
        By home, queries that are not at home there.
    of_input
        By input its home, or -1.
    """

    apart: frozenset[str]
    others: Mapping[int, frozenset[str]]
    of_input: np.ndarray

    @classmethod
    def of(cls, layout: Layout, homes: bytes, failed: frozenset[str]) -> HomeParts:
        """Parts of a layout; `homes` has two bytes for each of its queries."""
        at = np.frombuffer(homes, dtype=np.int16)
        of_input = np.full(len(layout.inputs), -1, dtype=np.int64)
        names: dict[int, set[str]] = {}
        for routed, home in zip(layout.queries, at.tolist(), strict=True):
            names.setdefault(home, set()).add(routed.query.name)
            of_input[list(routed.inputs)] = home
        every = {routed.query.name for routed in layout.queries} | failed
        at_home = {home: its for home, its in names.items() if home >= 0}
        return cls(
            frozenset(every - names.get(-1, set()) | failed),
            {home: frozenset(every - its | failed) for home, its in at_home.items()},
            of_input,
        )


def homes_of(layout: Layout, site: Mapping[str, int]) -> bytes:
    """Homes of a layout's queries as they travel; nothing where nobody has one."""
    at = np.array([site.get(routed.query.name, -1) for routed in layout.queries], dtype=np.int16)
    return at.tobytes() if (at >= 0).any() else b""


def over_all(task: SlotTask) -> SlotTask:
    """The part of a step that is done by all sites."""
    return _with_blocks(replace(task, homes=b"", failed=task.home_parts.apart))


def at_home(task: SlotTask, home: int) -> SlotTask:
    """The part of a step that one site does alone."""
    part = replace(
        task,
        homes=b"",
        failed=task.home_parts.others[home],
        slots=1,
        partition_map=_ONE_SITE,
        tracks=_NO_TRACKS,
        hot=(),
        aligned={},
        coordinated={},
        looks_for_hot_keys=False,
    )
    return _with_blocks(part)


def _with_blocks(part: SlotTask) -> SlotTask:
    stateful = part.stateful
    blocks = tuple(block for block in part.blocks if block.state in stateful)
    names = {block.name for block in blocks}
    merges = [group for group in part.merges if group[0] in names]
    beside = frozenset(block.name for block in part.blocks) - names
    return replace(part, step_blocks=StepBlocks(part.storage, blocks, (), merges), beside=beside)


def homes_in(task: SlotTask, slot: int) -> list[int]:
    """Homes that a slot works for."""
    here = task.partition_map
    return [home for home in sorted(task.home_parts.others) if here.slot_of_site(home, task.slots) == slot]


def rows_by_home(
    task: SlotTask, batches: Iterable[pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], dict[int, list[pa.RecordBatch]]]:
    """The rows of a slot: those that go by partition, and those of each home."""
    of_input = task.home_parts.of_input
    rest: list[pa.RecordBatch] = []
    found: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        tags = batch.column(TAG).to_numpy()
        at = np.where(tags >= 0, of_input[(np.maximum(tags, 0) & INPUT_MASK) >> 1], -1)
        for home in np.unique(at).tolist():
            mine = batch if (at == home).all() else batch.filter(pa.array(at == home))
            (rest if home < 0 else found.setdefault(home, [])).append(mine)
    return rest, found


def add_home(report: SlotReport, part: SlotReport, home: int) -> None:
    """Put what a site has done alone to the report of its slot. No partition has a share in it."""
    for name, stream in part.streams.items():
        report.streams[name] = (
            stream if name not in report.streams else report.streams[name].with_more(stream)
        )
    site = next((s for s in report.sites if s.site == home), None)
    if site is None:
        report.sites.append(site := SiteReport(home))
    for its in part.sites:
        site.busy_s += its.busy_s
        site.passing_s += its.busy_s
        site.rows += its.rows
        site.pairs += its.pairs
        site.results += its.results
        site.passing_results += its.results
        site.state_bytes += its.state_bytes
        for query, rows in its.waiting.items():
            site.waiting[query] = site.waiting.get(query, 0) + rows
    report.blocks += part.blocks
    report.results += part.results
    report.dead_letters += part.dead_letters
    report.failures |= part.failures
    report.keys |= part.keys
    report.given |= part.given
    report.represented |= part.represented
    report.given_alone |= part.given_alone
    report.query_s |= part.query_s
    report.rewritten |= part.rewritten
    for phase, seconds in part.seconds.items():
        report.seconds[phase] = report.seconds.get(phase, 0.0) + seconds

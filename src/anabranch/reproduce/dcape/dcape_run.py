"""Runs of the D-CAPE experiments: the real engine without the JVM, and what it measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from anabranch.adapt.events import EventKind
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.bench.same_results import Digest, digest_of
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.local_ingest import mix_longs
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.task.sites.lemma_purge import LemmaPurge
from anabranch.engine.task.sites.site_work import is_over
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.dcape.dcape_load import COLUMNS, SITES, STREAMS, Load
from anabranch.state.storage import PosixStorage

BC_A = "((b c) a)"
REPEATS = 3
"""Runs of the same setting: single ones differ by a fifth."""
SLOTS = SITES
"""A slot per site, so that no file has rows of two sites. With fewer, the first site of a slot pays for the
indexes of all."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a run adapts.

    Attributes
    ----------
    rebalance, migration
        The session's settings; balancing counts from batch `balance_at` on.
    switch_at
        Batch before which site 0 alone changes to `((b c) a)`, as the paper's most loaded machine does.
    lemma
        Parallel tracks end by the paper's purge rule, lemma 2.2, not by exact expiry.
    stop_at
        Batch before which the run is broken off.
    """

    rebalance: str = "off"
    migration: str = "off"
    balance_at: int = 0
    switch_at: int | None = None
    lemma: bool = False
    stop_at: int | None = None


@dataclass(slots=True)
class Measured:
    """What a run brought, per batch."""

    busy_s: list[list[float]] = field(default_factory=list)
    """CPU seconds of every site."""
    results: list[list[int]] = field(default_factory=list)
    """Of every site."""
    rows: list[int] = field(default_factory=list)
    """That arrived."""
    state_rows: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    """Partitions that change sites after the batch."""
    strategies: list[Strategy | None] = field(default_factory=list)
    """How they do."""
    relocation_s: list[float] = field(default_factory=list)
    """Most that copying and rebuilding took at a site."""
    copied_bytes: int = 0
    rebuilt_rows: int = 0
    plan_changes: int = 0
    tracks: list[int] = field(default_factory=list)
    """Lengths, in batches, of the parallel tracks that have ended."""
    digest: Digest = field(default_factory=lambda: Digest(0, 0, 0))

    @property
    def critical_s(self) -> list[float]:
        """Per batch the CPU seconds of the busiest site: what one machine per site would have waited for."""
        return [max(busy) for busy in self.busy_s]

    def throughput(self, since: int = 0) -> float:
        """Results per second of the critical path."""
        return sum(map(sum, self.results[since:])) / sum(self.critical_s[since:])

    @property
    def choice(self) -> Strategy | None:
        """How the first partitions moved."""
        return next((s for s in self.strategies if s is not None), None)


def measure(load: Load, setting: Setting) -> Measured:
    """Run a load."""
    _warm_up()
    return _run(load, setting)


def typical(runs: Sequence[Measured]) -> Measured:
    """Of several runs of one setting, that with the median critical path."""
    return sorted(runs, key=lambda run: sum(run.critical_s))[len(runs) // 2]


@cache
def _warm_up() -> None:
    """Once per process: compiled code is loaded by whoever comes first, which would look like its load."""
    _run(Load(500, 20, keys=100, length_s=30), Setting(rebalance="mslb", migration="auto"))


def _run(load: Load, setting: Setting) -> Measured:
    measured = Measured()
    with TemporaryDirectory(prefix="anabranch-") as folder:  # on disk: states are too large for memory
        root = Path(folder)
        run = LocalRun(
            root / "checkpoint",
            STREAMS,
            (load.query,),
            sinks={"q": ParquetSink(root / "out")},
            settings=Settings(
                sites=SITES,
                slots=SLOTS,
                isolation="per_site",
                max_blocks=4,
                skew_buffer_rows=0,
                rebalance="off",
                migration=setting.migration,
            ),
            is_over=_purge(setting, root / "checkpoint"),
        )
        for batch, tables in enumerate(load.tables(mix_longs)):
            if batch == setting.stop_at:
                break
            if batch == setting.switch_at:
                run.loop.migrate("q", BC_A, site=0)
            if batch == setting.balance_at:
                run.loop.change(rebalance=setting.rebalance)
            before = run.loop.tracks, run.loop.partition_map
            summary = run.batch(tables)
            _note(measured, summary, before[0])
            moved = zip(before[1].site_of_partition, run.loop.partition_map.site_of_partition, strict=True)
            measured.moved.append(sum(old != new for old, new in moved))
            began = any(t.until == batch + 1 for t in run.loop.tracks.ending)
            strategy = Strategy.PARALLEL_TRACK if began else Strategy.MOVING_STATE
            measured.strategies.append(strategy if measured.moved[-1] else None)
        run.close()
        measured.digest = digest_of(root / "out", COLUMNS)
    return measured


def _purge(setting: Setting, checkpoint: Path) -> IsOver:
    return LemmaPurge(PosixStorage(checkpoint)) if setting.lemma else is_over


def _note(measured: Measured, summary: BatchSummary, before: Tracks) -> None:
    sites = sorted((s for r in summary.reports for s in r.sites), key=lambda s: s.site)
    measured.busy_s.append([s.busy_s for s in sites])
    measured.results.append([s.results for s in sites])
    measured.rows.append(sum(s.rows for s in sites))
    measured.state_rows.append(_state_rows(summary))
    measured.relocation_s.append(max(s.copy_s + s.rebuild_s for s in sites))
    measured.copied_bytes += sum(s.copied_bytes for s in sites)
    measured.rebuilt_rows += sum(s.rebuilt_rows for s in sites)
    measured.plan_changes += sum(e.kind == EventKind.PLAN_CHANGED for e in summary.events)
    after = Tracks.from_json(summary.manifest.tracks)
    batch = summary.manifest.batch
    measured.tracks += [batch + 1 - (t.until or 0) for t in before.ending if t not in after.ending]


def _state_rows(summary: BatchSummary) -> int:
    """Rows in all states; those that a track which ends drains beside their owner count twice."""
    manifest = summary.manifest
    tracks = Tracks.from_json(manifest.tracks)
    total = 0
    for block in manifest.blocks:
        total += sum(n for _, n in block.partitions)
        is_leaf = not block.state.startswith("q-")
        for track in tracks.ending if is_leaf else ():
            if track.until is not None and block.batch >= track.until:
                total += sum(n for p, n in block.partitions if p in track.partitions)
    return total

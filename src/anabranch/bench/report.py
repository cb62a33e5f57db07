"""Measurements as tables for people and as JSON for machines."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from anabranch.bench.adapting.adapt import SITES, AdaptCost
from anabranch.bench.adapting.adapt_loads import LoadResult
from anabranch.bench.adapting.station_scale import StationScale
from anabranch.bench.adapting.stations import OrderBench
from anabranch.bench.empty import EmptyBatches
from anabranch.bench.engine_run import WARM_UP_BATCHES, EngineRun, Skipped
from anabranch.bench.joins.band import BandBench, DistanceBench
from anabranch.bench.joins.hotkey import HotKeyBench
from anabranch.bench.joins.join import JoinBench, JoinResult
from anabranch.bench.joins.window_scale import WindowScale
from anabranch.bench.kernels.filter import FilterBench
from anabranch.bench.kernels.kernels import KernelBench
from anabranch.bench.many.many_sites import FEW, MANY, ROWS, ManySites
from anabranch.bench.memory import StateMemory
from anabranch.bench.parse import ParseBench
from anabranch.bench.window import WindowBench

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from anabranch.bench.joins.bucket_peers import BesideSpark

MIB = 1024 * 1024


def engines_table(title: str, results: Sequence[JoinResult]) -> Table:
    """Engines side by side, Anabranch first."""
    runs = [r for r in results if isinstance(r.outcome, EngineRun)]
    ours = runs[0].outcome
    assert isinstance(ours, EngineRun)
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for column in (
        "rows/s, whole run",
        "rows/s, steady",
        "batch, median",
        "Anabranch is",
        "results",
        "verified",
    ):
        table.add_column(column, justify="right")
    for result in runs:
        run = result.outcome
        assert isinstance(run, EngineRun)
        table.add_row(
            run.engine,
            f"{run.rows_per_second:,.0f}",
            f"{run.steady_rows_per_second:,.0f}" if run.batches else "–",
            f"{run.steady_batch_ms:,.0f} ms" if run.batches else "–",
            "1" if run is ours else f"{ours.steady_rows_per_second / run.steady_rows_per_second:.2f} ×",
            f"{run.result_rows:,}",
            "the judge"
            if run.engine.startswith("DuckDB")
            else "equal"
            if result.difference is None
            else "DIFFERENT",
        )
    return table


def engines_notes(bench: JoinBench | WindowBench | ParseBench, results: Sequence[JoinResult]) -> list[str]:
    """What does not fit in the table: how it was measured, skipped peers, differences."""
    jvm = f"warm: engines on it ran for {bench.warm_s:g} s before" if bench.warm_s else "cold"
    notes = [
        f"Steady: batches after the first {WARM_UP_BATCHES}; engines without batches count as a whole. "
        f"The JVM was {jvm}."
    ]
    notes += [str(r.outcome) for r in results if isinstance(r.outcome, Skipped)]
    notes += [r.difference for r in results if r.difference is not None]
    return notes


def window_scale_table(result: WindowScale) -> Table:
    table = Table(title="Batch time when the window, and so the state, is larger", title_justify="left")
    table.add_column("window")
    for column in ("state rows", "results per batch", "batch, median", "of it the engine"):
        table.add_column(column, justify="right")
    for run in (result.narrow, result.wide):
        table.add_row(
            f"{run.window_batches} batches",
            f"{run.state_rows:,}",
            f"{run.result_rows:,.0f}",
            f"{run.batch_ms:,.0f} ms",
            f"{run.engine_ms:,.0f} ms",
        )
    table.add_section()
    engine = result.wide.engine_ms / result.narrow.engine_ms if result.narrow.engine_ms else 0.0
    table.add_row("ratio", "", "", f"{result.ratio:.2f} ×", f"{engine:.2f} ×")
    return table


def empty_table(result: EmptyBatches) -> Table:
    table = Table(title="A micro-batch without rows", title_justify="left")
    table.add_column("")
    table.add_column("median of batch", justify="right")
    table.add_row("foreachBatch that counts", f"{result.foreach_batch_ms:,.0f} ms")
    table.add_row("Anabranch, one query", f"{result.engine_ms:,.0f} ms")
    table.add_section()
    table.add_row("ratio", f"{result.ratio:.2f} ×")
    return table


def adapt_table(result: AdaptCost) -> Table:
    table = Table(title=f"Adaptation, {SITES} sites", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    rows = (
        ("uniform three-way join, policies on: median batch", f"{result.on_ms:,.0f} ms"),
        ("  off", f"{result.off_ms:,.0f} ms"),
        ("  on ÷ off", f"{result.ratio:.3f} ×"),
        ("  CPU time of all sites, on ÷ off", f"{result.busy_overhead:.3f} ×"),
        ("shifting load: moves", f"{result.moves}"),
        ("  batches in which something has moved ÷ the others", f"{result.moving:.2f} ×"),
        (
            "  batches until balanced, at the start and after a shift",
            ", ".join(map(str, result.batches_to_balance)),
        ),
        ("  moves undone while the load was steady", f"{result.undone}"),
    )
    for row in rows:
        table.add_row(*row)
    return table


def kernel_table(result: KernelBench) -> Table:
    table = Table(
        title=f"{result.rows:,} rows: time without a hot key, and with one as a multiple of it",
        title_justify="left",
    )
    table.add_column("kernel")
    table.add_column("times")
    table.add_column("no hot key", justify="right")
    for share in result.hot_shares[1:]:
        table.add_column(f"{share:.0%} hot", justify="right")
    for found in result.times:
        ratios = (f"{ratio:.2f} ×" for ratio in found.ratios[1:])
        table.add_row(found.kernel, found.order, f"{found.milliseconds[0]:,.2f} ms", *ratios)
    return table


def hot_join_table(result: KernelBench) -> Table:
    table = Table(title="Whole joins on a million keys, without Spark", title_justify="left")
    for column in ("streams", "hot", "rows", "results", "CPU time", "of no hot key"):
        table.add_column(column, justify="right")
    for join, ratio in result.join_ratios():
        table.add_row(
            f"{join.streams}",
            f"{join.hot:.0%}",
            f"{join.rows:,}",
            f"{join.results:,}",
            f"{join.seconds:.2f} s",
            f"{ratio:.2f} ×",
        )
    return table


def band_table(band: BandBench, distance: DistanceBench) -> Table:
    """Joins without an equality."""
    title = (
        f"joins without an equality: {band.rows:,} rows per stream and batch, "
        f"window {band.window_batches} batches"
    )
    table = Table(title=title, title_justify="left")
    for column in ("join", "a second", "beside DuckDB", "results"):
        table.add_column(column, justify="left" if column == "join" else "right")
    table.add_row("band", f"{band.rows_per_second:,.0f} rows", f"{band.ratio:.2f} ×", f"{band.results:,}")
    table.add_row(
        f"distance, {distance.dimensions} dimensions",
        f"{distance.pairs_per_second / 1e6:,.0f} M pairs of one core",
        "–",
        f"{distance.results:,}",
    )
    return table


def filter_table(results: Sequence[FilterBench]) -> Table:
    """Rows a second against predicates."""
    table = Table(title="Group filter, CPU time of one core", title_justify="left")
    for column in (
        "predicates",
        "of the form",
        "M rows/s",
        "ns a row",
        "pairs a row",
        "DuckDB, M rows/s",
        "index all",
        "add one",
    ):
        table.add_column(column, justify="left" if column == "of the form" else "right")
    for r in results:
        peer = "–" if r.duckdb_seconds is None else f"{r.rows / r.duckdb_seconds / 1e6:,.1f}"
        table.add_row(
            f"{r.predicates:,}",
            r.kind,
            f"{r.rows_per_second / 1e6:,.1f}",
            f"{r.ns_per_row:,.0f}",
            f"{r.pairs / r.rows:.2f}",
            peer,
            f"{r.build_seconds:.2f} s",
            f"{r.add_seconds * 1e3:.1f} ms",
        )
    return table


def stations_tables(orders: Mapping[str, OrderBench], scale: StationScale) -> list[Table]:
    """Eddies beside fixed orders, and what stations bring and cost."""
    table = Table(title="a chain of three streams: CPU time by order of stations", title_justify="left")
    for column in ("load", "r–s first", "s–t first", "eddy", "plan migration", "eddy ÷ best order"):
        table.add_column(column, justify="left" if column == "load" else "right")
    for load, found in orders.items():
        seconds = (f"{s:.2f} s" for s in (*found.fixed.values(), found.eddy, found.migration))
        table.add_row(load, *seconds, f"{found.ratio:.2f}")
    title = f"{scale.rows:,} rows per stream and batch, {scale.sites} sites"
    spread = Table(title=title, title_justify="left")
    for column in ("measure", "value"):
        spread.add_column(column, justify="left" if column == "measure" else "right")
    spread.add_row("critical path of one site ÷ of all", f"{scale.spread:.1f} ×")
    spread.add_row("the same if all sites were alike", f"{scale.alone_s / scale.worked_s:.1f} ×")
    spread.add_row("CPU of the chain ÷ of a join on a shared key", f"{scale.ratio:.2f} ×")
    return [table, spread]


def hotkey_table(result: HotKeyBench) -> Table:
    """A hot key at one site and at all."""
    title = (
        f"half of the rows on one key: {result.rows:,} rows per stream and batch, {result.references} streams"
    )
    table = Table(title=title, title_justify="left")
    for column in ("key", "critical path of a batch", "results"):
        table.add_column(column, justify="left" if column == "key" else "right")
    spread = f"{1000 * result.spread_s:,.1f} ms ({result.ratio:.1f} × less)"
    table.add_row("at one site", f"{1000 * result.whole_s:,.1f} ms", f"{result.results:,}")
    table.add_row("spread", spread, f"{result.results:,}")
    if result.duckdb_s is not None:
        table.add_row(
            "DuckDB, a query per batch, one core", f"{1000 * result.duckdb_s:,.1f} ms", f"{result.results:,}"
        )
    table.add_row("looking for it, where there is none", f"{result.looking:.2%} of the work", "–")
    return table


def beside_spark_table(found: BesideSpark) -> Table:
    """The same join on Spark, ours and Spark's own."""
    table = Table(title=f"On Spark, {found.rows:,} rows per stream and batch", title_justify="left")
    for column in ("join", "median batch", "rows/s, steady", "results"):
        table.add_column(column, justify="left" if column == "join" else "right")
    for run in (found.ours, found.spark):
        batch, rate = f"{run.steady_batch_ms:,.0f} ms", f"{run.steady_rows_per_second:,.0f}"
        table.add_row(run.engine, batch, rate, f"{run.result_rows:,}")
    table.caption = f"the same results, {found.ratio:.1f} × the rows a second of Spark's own join"
    return table


def loads_table(results: Sequence[LoadResult]) -> Table:
    table = Table(title="Balancing, load by load", title_justify="left")
    table.add_column("load")
    for column in (
        "moves",
        "expected saving",
        "observed saving",
        "least observed",
        "critical path, ÷ without",
    ):
        table.add_column(column, justify="right")
    for r in results:
        shares = ("–" if share is None else f"{share:.0%}" for share in (r.expected, r.observed, r.least))
        table.add_row(r.load, f"{r.moves}", *shares, f"{r.critical:.2f} ×")
    return table


def many_sites_table(result: ManySites) -> Table:
    table = Table(title=f"Ten queries, {2 * ROWS:,} rows a batch", title_justify="left")
    table.add_column("sites")
    table.add_column("median of batch", justify="right")
    table.add_row(f"{FEW}", f"{result.few_ms:,.0f} ms")
    table.add_row(f"{MANY}", f"{result.many_ms:,.0f} ms")
    table.add_section()
    table.add_row("ratio", f"{result.ratio:.2f} ×")
    return table


def memory_table(result: StateMemory) -> Table:
    worker = result.at_end
    table = Table(
        title=f"{result.state_rows:,} rows of state ({result.state_bytes / MIB:,.0f} MiB of blocks), "
        f"{result.workers} Python processes",
        title_justify="left",
    )
    table.add_column("largest worker")
    table.add_column("MiB", justify="right")
    rows = (
        ("resident after the last batch (RSS)", worker.rss),
        ("  private (anonymous)", worker.anonymous),
        ("  file pages: mapped blocks and libraries, may be dropped", worker.file_backed),
        ("proportional share (PSS)", worker.proportional),
        ("largest private memory seen in the run", result.peak_anonymous),
        ("largest RSS in the worker's life (VmHWM)", result.peak_rss),
    )
    for name, octets in rows:
        table.add_row(name, f"{octets / MIB:,.0f}")
    return table


def machine() -> dict[str, Any]:
    """Where it was measured."""
    import pyspark

    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "load_average": round(os.getloadavg()[0], 2),
    }


def engines_json(
    bench: JoinBench | WindowBench | ParseBench, results: Sequence[JoinResult]
) -> dict[str, Any]:
    return {
        "bench": {JoinBench: "join", WindowBench: "window", ParseBench: "parse"}[type(bench)],
        "machine": machine(),
        "parameters": dataclasses.asdict(bench),
        "engines": [_outcome_json(r) for r in results],
    }


def plain_json(name: str, result: DataclassInstance) -> dict[str, Any]:
    """A measurement that is one dataclass, its ratio included where it has one."""
    found = {"bench": name, "machine": machine(), **dataclasses.asdict(result)}
    ratio = getattr(result, "ratio", None)
    return found if ratio is None else found | {"ratio": ratio}


def _outcome_json(result: JoinResult) -> dict[str, Any]:
    if isinstance(result.outcome, Skipped):
        return dataclasses.asdict(result.outcome) | {"skipped": True}
    run = result.outcome
    return {
        "engine": run.engine,
        "seconds": run.seconds,
        "input_rows": run.input_rows,
        "result_rows": run.result_rows,
        "rows_per_second": run.rows_per_second,
        "steady_rows_per_second": run.steady_rows_per_second,
        "steady_batch_ms": run.steady_batch_ms,
        "batch_ms": [b.milliseconds for b in run.batches],
        "difference": result.difference,
    }

"""`anabranch bench`: measurements with the peers in the same run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.cli.spark_start import parse_conf, start_spark
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.bench.joins.join import JoinBench, JoinResult
    from anabranch.bench.parse import ParseBench
    from anabranch.bench.window import WindowBench

bench = typer.Typer(help="Measure, with the peers in the same run.", no_args_is_help=True)

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the measurements to this file, too.")]
Conf = Annotated[list[str] | None, typer.Option(help="Spark setting key=value; may be repeated.")]
Scratch = Annotated[
    Path | None, typer.Option(help="Keep files, state and results here instead of a temporary directory.")
]

DRIVER_MEMORY = "6g"
"""Spark's own join keeps its state on the heap: with less, it would be measured while collecting garbage."""


class ResultsDiffer(AnabranchError):
    """Two engines gave different results, so that their speeds cannot be compared."""


class TooSlow(AnabranchError):
    """A measurement is far from what it should be."""


@bench.command()
def join(
    rows: Annotated[int, typer.Option(help="Rows per stream and micro-batch.", min=1)] = 50_000,
    batches: Annotated[
        int | None, typer.Option(help="Micro-batches; default 22, or 14 from 200,000 rows on.")
    ] = None,
    window_batches: Annotated[int, typer.Option(help="Length of the window in batches.", min=1)] = 10,
    keys: Annotated[Literal["int", "string"], typer.Option(help="Type of the key.")] = "int",
    streams: Annotated[Literal["2", "3"], typer.Option(help="Streams to join.")] = "2",
    peers: Annotated[
        str, typer.Option(help="Of spark, rocksdb, duckdb, polars, flink.")
    ] = "spark,duckdb,polars,flink",
    warm: Annotated[
        float, typer.Option(help="Seconds for which engines on the JVM run before it counts.", min=0)
    ] = 60,
    window_scale: Annotated[
        int | None, typer.Option(help="Instead: batch time when the window is so many times longer.", min=2)
    ] = None,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Join windows of uniform streams, beside Spark's own join and batch engines."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.joins.join import PEERS, JoinBench, run_join_bench
        from anabranch.bench.joins.window_scale import run_window_scale
        from anabranch.bench.report import plain_json, window_scale_table

        if window_scale is not None:
            scaled = run_window_scale(
                spark, folder, rows=rows, window_batches=window_batches, scale=window_scale, keys=keys
            )
            console.print(window_scale_table(scaled))
            _write(json_file, plain_json("window-scale", scaled))
            return
        chosen = tuple(p.strip() for p in peers.split(",") if p.strip())
        if unknown := [p for p in chosen if p not in PEERS]:
            raise InputError(f"unknown peer {unknown[0]!r}: choose from {', '.join(PEERS)}")
        plan = JoinBench(
            rows=rows,
            batches=batches or (22 if rows < 200_000 else 14),
            window_batches=window_batches,
            keys=keys,
            streams=3 if streams == "3" else 2,
            peers=chosen,
            warm_s=warm,
        )
        _compare(console, plan, run_join_bench(spark, plan, folder), json_file)


@bench.command()
def window(
    rows: Annotated[int, typer.Option(help="Rows per micro-batch.", min=1)] = 50_000,
    keys: Annotated[int, typer.Option(help="Different keys.", min=1)] = 10_000,
    batches: Annotated[int, typer.Option(help="Micro-batches.", min=5)] = 22,
    window_batches: Annotated[int, typer.Option(help="Length of a window in batches.", min=1)] = 5,
    warm: Annotated[
        float, typer.Option(help="Seconds for which each engine runs before it counts.", min=0)
    ] = 60,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Aggregate tumbling windows, beside Spark's own groupBy(window) with RocksDB state."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.window import WindowBench, run_window_bench

        plan = WindowBench(rows=rows, keys=keys, batches=batches, window_batches=window_batches, warm_s=warm)
        _compare(console, plan, run_window_bench(spark, plan, folder), json_file)


@bench.command()
def parse(
    rows: Annotated[int, typer.Option(help="Rows per micro-batch.", min=1)] = 50_000,
    batches: Annotated[int, typer.Option(help="Micro-batches.", min=2)] = 12,
    warm: Annotated[
        float, typer.Option(help="Seconds for which each engine runs before it counts.", min=0)
    ] = 60,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Parse JSON in a SELECT at ingest, beside the same SELECT in a plain stream of Spark."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.parse import ParseBench, run_parse_bench

        plan = ParseBench(rows=rows, batches=batches, warm_s=warm)
        _compare(console, plan, run_parse_bench(spark, plan, folder), json_file)


@bench.command()
def empty(
    batches: Annotated[int, typer.Option(help="Micro-batches per turn.", min=5)] = 23,
    rounds: Annotated[int, typer.Option(help="Turns of each side.", min=1)] = 2,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Time a micro-batch without rows, beside a foreachBatch that only counts."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.empty import run_empty
        from anabranch.bench.report import empty_table, plain_json

        result = run_empty(spark, folder, batches=batches, rounds=rounds)
        console.print(empty_table(result))
        _write(json_file, plain_json("empty", result))


@bench.command()
def adapt(
    rows: Annotated[int, typer.Option(help="Rows per stream and micro-batch.", min=100)] = 20_000,
    batches: Annotated[int, typer.Option(help="Micro-batches per turn.", min=9)] = 24,
    rounds: Annotated[int, typer.Option(help="Turns with the policies on and off.", min=1)] = 4,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Measure what adaptation costs and saves on loads that need it, and on loads that do not."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.adapting.adapt import run_adapt
        from anabranch.bench.adapting.adapt_loads import run_loads
        from anabranch.bench.many.many_sites import run_many_sites
        from anabranch.bench.report import adapt_table, loads_table, many_sites_table, plain_json

        loads = list(run_loads(spark, folder / "loads", rows=rows, batches=batches))
        console.print(loads_table(loads))
        sites = run_many_sites(spark, folder / "sites")
        console.print(many_sites_table(sites))
        result = run_adapt(spark, folder, rows=rows, batches=batches, rounds=rounds)
        console.print(adapt_table(result))
        measured = {"loads": [asdict(load) for load in loads], "sites": asdict(sites)}
        _write(json_file, plain_json("adapt", result) | measured)


@bench.command()
def memory(
    rows: Annotated[
        int, typer.Option(help="Rows of state to reach, both streams together.", min=1000)
    ] = 10_000_000,
    batches: Annotated[int, typer.Option(help="Micro-batches to reach it in.", min=2)] = 20,
    json_file: JsonFile = None,
    scratch: Scratch = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Weigh Spark's Python workers while the state is large."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.memory import run_memory
        from anabranch.bench.report import memory_table, plain_json

        result = run_memory(spark, folder, rows=rows, batches=batches)
        console.print(memory_table(result))
        _write(json_file, plain_json("memory", result))


@bench.command()
def kernels(
    rows: Annotated[int, typer.Option(help="Rows that every kernel works on.", min=1000)] = 400_000,
    rounds: Annotated[int, typer.Option(help="Turns, of which the shortest counts.", min=1)] = 7,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> None:
    """Time every kernel with more and more rows on one key, and times in order, reversed and at random."""
    with telling(debug=debug):
        from anabranch.bench.joins.hot_join import run_hot_joins
        from anabranch.bench.kernels.kernels import HOT_SHARES, MOST, KernelBench, run_kernels
        from anabranch.bench.report import hot_join_table, kernel_table, plain_json

        console = _console()
        with console.status("Timing kernels …"), tempfile.TemporaryDirectory() as folder:
            times = tuple(run_kernels(rows=rows, rounds=rounds))
            joins = tuple(run_hot_joins(Path(folder), rows=rows))
        result = KernelBench(rows, HOT_SHARES, times, joins)
        console.print(kernel_table(result))
        console.print(hot_join_table(result))
        _write(json_file, plain_json("kernels", result))
        if slow := result.too_slow():
            raise TooSlow(f"more than {MOST:g} times their usual case:\n" + "\n".join(slow))


@bench.command()
def constants(
    queries: Annotated[int, typer.Option(help="Joins, each with filters of its own.", min=1)] = 1000,
    rows: Annotated[int, typer.Option(help="Rows per stream and batch.", min=1)] = 2000,
    batches: Annotated[int, typer.Option(help="Batches before it is measured.", min=1)] = 2,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> None:
    """Measure what a batch of very many queries costs before a row is touched."""
    with telling(debug=debug):
        from anabranch.bench.many.constants import constants_table, run_constants
        from anabranch.bench.report import plain_json

        console = _console()
        with console.status("Running …"), tempfile.TemporaryDirectory() as folder:
            result = run_constants(Path(folder), queries=queries, rows=rows, batches=batches)
        console.print(constants_table(result))
        _write(json_file, plain_json("constants", result))
        if queries <= 1000 and (broken := result.too_much()):
            raise TooSlow("more than a thousand queries may take:\n" + "\n".join(broken))


@bench.command("filter")
def group_filter(
    rows: Annotated[int, typer.Option(help="Rows to match.", min=1000)] = 2_000_000,
    rounds: Annotated[int, typer.Option(help="Turns, of which the shortest counts.", min=1)] = 5,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> None:
    """Match rows with 1,000 and 100,000 predicates at once, beside DuckDB's join with a table of rules."""
    with telling(debug=debug):
        from anabranch.bench.kernels.filter import WANTED, run_filter
        from anabranch.bench.report import filter_table, plain_json

        console = _console()
        with console.status("Matching …"):
            results = tuple(run_filter(rows=rows, rounds=rounds))
        console.print(filter_table(results))
        _write(json_file, {"filter": [plain_json("filter", r) for r in results]})
        best = {n: max(r.rows_per_second for r in results if r.predicates == n) for n in WANTED}
        if slow := [
            f"{n:,} predicates: {best[n]:,.0f} rows a second"
            for n, least in WANTED.items()
            if best[n] < least
        ]:
            raise TooSlow("the group filter is slower than it should be:\n" + "\n".join(slow))


def _console() -> Console:
    """Wide enough for the tables."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


@contextmanager
def _bench(
    scratch: Path | None, conf: list[str] | None, *, debug: bool
) -> Iterator[tuple[SparkSession, Path, Console]]:
    """A Spark session, a folder to work in, and a console."""
    console = _console()
    console.print("Starting Spark …", style="dim", highlight=False)
    spark = start_spark(None, {"spark.driver.memory": DRIVER_MEMORY} | parse_conf(conf or []), debug=debug)
    if scratch is not None:
        if scratch.exists() and any(scratch.iterdir()):
            raise InputError(f"{scratch} is not empty: name a new directory")
        yield spark, scratch.absolute(), console
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as folder:
        yield spark, Path(folder), console


def _compare(
    console: Console,
    plan: JoinBench | WindowBench | ParseBench,
    measured: Iterable[JoinResult],
    json_file: Path | None,
) -> None:
    """Engines side by side, as they come; raises if their results differ."""
    from anabranch.bench.report import engines_json, engines_notes, engines_table

    results = []
    for result in measured:
        results.append(result)
        console.print(f"  {result.outcome.engine}: done", style="dim", highlight=False)
    console.print(engines_table(plan.title, results))
    for note in engines_notes(plan, results):
        console.print(note, highlight=False)
    _write(json_file, engines_json(plan, results))
    if any(r.difference is not None for r in results):
        raise ResultsDiffer("the engines gave different results, so the figures mean nothing")


def _write(path: Path | None, measured: Mapping[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")

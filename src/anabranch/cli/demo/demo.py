"""`anabranch demo`: an auction, two continuous queries, checked and timed, then a load that shifts."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from anabranch.cli.demo.auction_flow import AUCTION_WINDOW, BID_WINDOW, TWO_WAY, auction_flow
from anabranch.cli.demo.demo_shift import WrongResults, show_shift
from anabranch.cli.figures import count, duration
from anabranch.cli.flow_file import read_flow
from anabranch.cli.follow import follow
from anabranch.cli.spark_start import start_spark
from anabranch.cli.stop_request import StopRequest
from anabranch.cli.telling import Debug, InputError, telling
from anabranch.cli.views import choose_view
from anabranch.plan.logical import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.bench.engine_run import EngineRun
    from anabranch.workloads.uniform import Workload

BIDS_PER_BATCH = 50_000
BATCHES = 16


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to put the files; a temporary directory by default.")
    ] = None,
    bids: Annotated[int, typer.Option(help="Bids per micro-batch.", min=20)] = BIDS_PER_BATCH,
    batches: Annotated[int, typer.Option(help="Micro-batches.", min=5)] = BATCHES,
    debug: Debug = False,
) -> None:
    """See it work: an auction, two continuous queries, checked against DuckDB and timed beside Spark,

    then a join that adapts while its load shifts.
    """
    began = time.perf_counter()
    with telling(debug=debug):
        console = Console()
        folder = _folder(directory)
        workload = _make_auction(console, folder, batches=batches, bids=bids)
        path = folder / "flow.sql"
        path.write_text(auction_flow(workload, folder / "out"), encoding="utf-8")
        console.print(f"\n[bold]2  The queries[/], in {path}\n", highlight=False)
        console.print(
            Syntax(path.read_text(encoding="utf-8"), "sql", word_wrap=True, background_color="default")
        )
        flow = read_flow(path)
        console.print("[bold]3  Both queries in one session on Spark[/] (Spark takes some seconds to start)")
        spark = start_spark(conf={"spark.sql.streaming.numRecentProgressUpdates": "10000"}, debug=debug)
        ours = _run(spark, flow, folder, console)
        if ours is None:
            console.print("Stopped.")
            raise typer.Exit(130)
        _check(console, flow, workload, folder)
        _compare_speed(console, spark, workload, folder, ours)
        show_shift(console, spark, folder, rows=bids * 2 // 5, batches=batches * 3 // 2)
        _say_what_next(console, folder, time.perf_counter() - began)


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="anabranch-demo-"))
    if directory.exists() and any(directory.iterdir()):
        raise InputError(f"{directory} is not empty: name a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _make_auction(console: Console, folder: Path, *, batches: int, bids: int) -> Workload:
    from anabranch.workloads.uniform import auction_streams

    console.print("\n[bold]1  An auction house[/]: persons register, open auctions, place bids")
    workload = auction_streams(folder / "in", batches=batches, bids_per_batch=bids)
    rows = ", ".join(f"{s.rows:,} {s.name}" for s in workload.streams)
    console.print(
        f"   {rows}, up to {workload.disorder_us / 1e6:g} s out of order, {batches} files per stream; "
        "each file becomes one micro-batch",
        highlight=False,
    )
    return workload


def _run(spark: SparkSession, flow: Flow, folder: Path, console: Console) -> EngineRun | None:
    """Run the flow to its end with live progress; None when the user stopped it."""
    from anabranch.bench.engine_run import EngineRun
    from anabranch.bench.peers import batch_times
    from anabranch.spark.session import Session

    session = Session(spark, folder / "checkpoint")
    session.load(flow)
    view = choose_view(title="anabranch demo", as_json=False, console=console)
    began = time.perf_counter()
    with StopRequest() as stop, view:
        run = session.start(availableNow=True, listeners=[view])
        follow(run, stop)
    if stop.signal is not None:
        return None
    batches = batch_times(run.streamingQuery)
    return EngineRun("Anabranch", time.perf_counter() - began, sum(b.rows for b in batches), 0, batches)


def _check(console: Console, flow: Flow, workload: Workload, folder: Path) -> None:
    from anabranch.testing.flow_oracle import FlowOracle
    from anabranch.testing.oracle_compare import compare_rows

    console.print("\n[bold]4  Is it right?[/] The same queries as batch SQL in DuckDB over all rows")
    oracle = FlowOracle({s.name: s for s in flow.streams}, {s.name: s.path for s in workload.streams})
    for query in flow.queries:
        difference = compare_rows(folder / "out" / query.name, oracle.results(query))
        if not difference.empty:
            raise WrongResults(difference.describe(f"query {query.name}"))
        rows = difference.actual_rows
        console.print(f"   {query.name}: {rows:,} rows, [green]exactly those of DuckDB[/]", highlight=False)


def _compare_speed(
    console: Console, spark: SparkSession, workload: Workload, folder: Path, ours: EngineRun
) -> None:
    from anabranch.bench.auction_peer import spark_auction_join
    from anabranch.testing.oracle_compare import compare_rows

    console.print(
        f"\n[bold]5  And Spark's own join?[/] The query {TWO_WAY} alone, on the same files", highlight=False
    )
    theirs = spark_auction_join(
        spark, workload, auction_window=AUCTION_WINDOW, bid_window=BID_WINDOW, scratch=folder / "spark"
    )
    difference = compare_rows(folder / "spark" / "out", folder / "out" / TWO_WAY)
    if not difference.empty:
        raise WrongResults(difference.describe("Spark's own join"))
    table = Table(box=None, padding=(0, 2, 0, 3))
    table.add_column("")
    for column in ("batch, median", "rows/s, steady", "whole run"):
        table.add_column(column, justify="right")
    named = (("Anabranch, both queries", ours), (f"Spark, {TWO_WAY} alone", theirs))
    for name, run in named:
        table.add_row(
            name,
            duration(run.steady_batch_ms / 1000),
            count(run.steady_rows_per_second),
            duration(run.seconds),
        )
    console.print(table)
    cores = len(os.sched_getaffinity(0))
    ratio = ours.steady_rows_per_second / theirs.steady_rows_per_second
    console.print(
        f"   {ratio:.1f} times the rows per second, with the larger job, same results, on {cores} cores.\n"
        "   Steady means after the first 3 batches. Anabranch ran first and paid for the start of the JVM.\n"
        "   This is one run on a small input: `anabranch bench join` measures properly.",
        highlight=False,
    )


def _say_what_next(console: Console, folder: Path, seconds: float) -> None:
    console.print(f"\n[bold]Done in {duration(seconds)}.[/] Everything is in {folder}", highlight=False)
    console.print(
        f"   anabranch explain {folder / 'flow.sql'}     how the queries run\n"
        f"   anabranch state {folder / 'checkpoint'}     what the checkpoint holds\n"
        f"   anabranch run {folder / 'flow.sql'} --checkpoint {folder / 'checkpoint'}\n"
        "                                                   go on: new files in `in/` become new batches\n"
        "   docs/quickstart.md                              your own streams in ten minutes",
        highlight=False,
        soft_wrap=True,
    )

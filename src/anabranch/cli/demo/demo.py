"""`anabranch demo`: an auction, two continuous queries, checked and timed, then a load that shifts."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

from anabranch.cli.demo.auction_flow import auction_flow
from anabranch.cli.demo.demo_check import checked_rows
from anabranch.cli.demo.demo_more import show_more
from anabranch.cli.demo.demo_shift import show_shift
from anabranch.cli.demo.demo_speed import compare_speed
from anabranch.cli.demo.section import Sections
from anabranch.cli.flow_file import read_flow
from anabranch.cli.screen.figures import duration
from anabranch.cli.screen.follow import follow
from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.cli.screen.views import choose_view
from anabranch.cli.spark_start import log_kept_after_failure, start_spark
from anabranch.cli.stop_request import StopRequest
from anabranch.plan.logical import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.bench.engine_run import EngineRun
    from anabranch.workloads.uniform import Workload

BIDS_PER_BATCH = 100_000
"""Small batches would compare the bookkeeping of Spark with itself."""
BATCHES = 10
SHIFT_ROWS, SHIFT_BATCHES = 30_000, 21
MORE_BIDS = 4_000


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to put the files; a temporary directory by default.")
    ] = None,
    bids: Annotated[int, typer.Option(help="Bids per micro-batch.", min=20)] = BIDS_PER_BATCH,
    batches: Annotated[int, typer.Option(help="Micro-batches.", min=5)] = BATCHES,
    debug: Debug = False,
) -> None:
    """See it work: an auction, two continuous queries, checked against DuckDB and timed beside Spark,

    then joins that adapt while their load shifts, and joins that have no common key.
    """
    with log_kept_after_failure(), telling(debug=debug):
        sections = Sections(Console())
        folder = _folder(directory)
        workload = _make_auction(sections, folder, batches=batches, bids=bids)
        flow = _show_queries(sections, workload, folder)
        sections.begin("Both queries, in one session on Spark")
        with sections.doing("Starting Spark"):
            spark = start_spark(conf={"spark.sql.streaming.numRecentProgressUpdates": "10000"}, debug=debug)
        ours = _run(spark, flow, folder, sections.console)
        if ours is None:
            sections.say("Stopped.")
            raise typer.Exit(130)
        _check(sections, flow, workload, folder)
        compare_speed(sections, spark, workload, folder, ours)
        shift = min(SHIFT_ROWS, bids)
        picture, adapted = show_shift(
            sections, spark, folder, rows=shift, batches=min(SHIFT_BATCHES, batches * 2)
        )
        show_more(sections, spark, folder, bids=min(MORE_BIDS, bids))
        _say_what_next(sections, folder, picture, adapted)


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="anabranch-demo-"))
    if directory.exists() and any(directory.iterdir()):
        raise InputError(f"{directory} is not empty: name a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _show_queries(sections: Sections, workload: Workload, folder: Path) -> Flow:
    path = folder / "flow.sql"
    path.write_text(auction_flow(workload, folder / "out"), encoding="utf-8")
    sections.begin("The queries", f"in {path}")
    text = path.read_text(encoding="utf-8")
    queries = text[text.index("-- Three streams") :]
    sections.console.print(Syntax(queries, "sql", word_wrap=True, background_color="default"))
    return read_flow(path)


def _make_auction(sections: Sections, folder: Path, *, batches: int, bids: int) -> Workload:
    sections.begin("An auction house", "Persons register, open auctions, place bids.")
    with sections.doing("Writing their streams as files"):
        from anabranch.workloads.uniform import auction_streams

        workload = auction_streams(folder / "in", batches=batches, bids_per_batch=bids)
    rows = ", ".join(f"{s.rows:,} {s.name}" for s in workload.streams)
    sections.say(
        f"{rows}, up to {workload.disorder_us / 1e6:g} s out of order, {batches} files per stream; "
        "each file becomes one micro-batch"
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


def _check(sections: Sections, flow: Flow, workload: Workload, folder: Path) -> None:
    sections.begin("Is it right?", "The same queries as batch SQL in DuckDB over all rows:")
    for name, rows in checked_rows(flow, workload, folder / "out"):
        sections.say(f"{name}: {rows:,} rows, [green]exactly those of DuckDB[/]")


def _say_what_next(sections: Sections, folder: Path, picture: Path, adapted: Path) -> None:
    sections.console.print(
        f"\n[bold]Done in {duration(sections.seconds)}.[/] Everything is in {folder}", highlight=False
    )
    sections.say(
        f"The picture of the shift: {picture} (open it in a browser)\n"
        "Three commands to try next:\n"
        f"   anabranch explain {adapted} --why\n"
        "      every decision of the run that adapted, with its numbers\n"
        f"   anabranch run {folder / 'flow.sql'} --checkpoint {folder / 'checkpoint'}\n"
        "      go on: new files in `in/` become new batches\n"
        "   anabranch docs tutorial\n      from your own CSV files to your own join in ten minutes"
    )

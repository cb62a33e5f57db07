"""The demo's comparison: one of its queries as Spark's own join, on the same files, when both are warm."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from anabranch.cli.demo.auction_flow import AUCTION_WINDOW, BID_WINDOW, TWO_WAY
from anabranch.cli.demo.demo_check import WrongResults
from anabranch.cli.demo.section import Sections
from anabranch.cli.screen.figures import count, duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.bench.engine_run import EngineRun
    from anabranch.workloads.uniform import Workload

_WHY = """\
Why: Spark looks up and stores each row by itself in a key-value store. Anabranch keeps rows sorted in files
that it maps into memory, and matches a whole batch with them in one pass."""


def compare_speed(
    sections: Sections, spark: SparkSession, workload: Workload, folder: Path, ours: EngineRun
) -> None:
    """Run the two-way query as Spark's own join, check its results, and show both rates."""
    from anabranch.bench.joins.auction_peer import spark_auction_join
    from anabranch.testing.oracle_compare import compare_rows

    sections.begin("And Spark's own join?", f"The query {TWO_WAY} alone, on the same files")
    with sections.doing("Spark's stream-stream join"):
        theirs = spark_auction_join(
            spark, workload, auction_window=AUCTION_WINDOW, bid_window=BID_WINDOW, scratch=folder / "spark"
        )
        difference = compare_rows(folder / "spark" / "out", folder / "out" / TWO_WAY)
    if not difference.empty:
        raise WrongResults(difference.describe("Spark's own join"))
    ours, theirs = (_second_half(run) for run in (ours, theirs))
    table = Table(box=None, padding=(0, 2, 0, 3))
    table.add_column("")
    for column in ("batch, median", "rows/s of whole triggers"):
        table.add_column(column, justify="right")
    for name, run in (("Anabranch, both queries", ours), (f"Spark, {TWO_WAY} alone", theirs)):
        table.add_row(name, duration(run.steady_batch_ms / 1000), count(run.steady_rows_per_second))
    sections.console.print(table)
    cores = len(os.sched_getaffinity(0))
    ratio = ours.steady_rows_per_second / theirs.steady_rows_per_second
    sections.say(
        f"{ratio:.1f} times the rows per second, with the larger job, same results, on {cores} cores, "
        "in the second half of the run, when both are warm.\n"
        f"{_WHY}\n[dim]One run on a small input: `anabranch bench join` measures properly.[/]"
    )


def _second_half(run: EngineRun) -> EngineRun:
    """Only the batches after the first half, and what counts as warm-up of them."""
    from anabranch.bench.engine_run import WARM_UP_BATCHES

    with_rows = [batch for batch in run.batches if batch.rows]
    return replace(run, batches=tuple(with_rows[max(0, len(with_rows) // 2 - WARM_UP_BATCHES) :]))

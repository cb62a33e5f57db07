"""`anabranch bench band` and `anabranch bench hotkey`: joins that an equality does not spread."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anabranch.cli.bench import JsonFile, _bench, _console, _write
from anabranch.cli.screen.telling import Debug, telling

if TYPE_CHECKING:
    from anabranch.bench.joins.bucket_peers import BesideSpark

Spark = Annotated[
    bool, typer.Option("--spark", help="Beside Spark's own join too, both from files to files.")
]
SPARK_ROWS = 20_000
"""Of a band join beside Spark, per stream and batch: with more, its batches take minutes."""


def bench_band(
    rows: Annotated[int, typer.Option(help="Rows per stream and batch.", min=1000)] = 100_000,
    window_batches: Annotated[int, typer.Option(help="Length of the window in batches.", min=1)] = 5,
    batches: Annotated[int, typer.Option(help="Batches that count.", min=1)] = 6,
    spark: Spark = False,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> None:
    """Join by bands beside DuckDB, and vectors by their distance."""
    with telling(debug=debug):
        from anabranch.bench.joins.band import run_band, run_distance
        from anabranch.bench.report import band_table, plain_json

        console = _console()
        with console.status("Joining …"), tempfile.TemporaryDirectory() as folder:
            run_band(Path(folder) / "compiled", rows=1000, batches=1)
            joined = run_band(
                Path(folder) / "band", rows=rows, window_batches=window_batches, batches=batches
            )
            near = run_distance()
        console.print(band_table(joined, near))
        measured = asdict(near) | {"pairs_per_second": near.pairs_per_second}
        found = plain_json("band", joined) | {"distance": measured}
        if spark:
            found["spark"] = _beside_spark("band", min(rows, SPARK_ROWS), debug=debug)
        _write(json_file, found)


def bench_hotkey(
    rows: Annotated[int, typer.Option(help="Rows per stream and batch.", min=100)] = 3_000,
    streams: Annotated[Literal["2", "3"], typer.Option(help="Streams to join.")] = "2",
    spark: Spark = False,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> None:
    """Join streams in which one key has half of the rows: at one site, and spread."""
    with telling(debug=debug):
        from anabranch.bench.joins.hotkey import run_hotkey
        from anabranch.bench.report import hotkey_table, plain_json

        console = _console()
        with console.status("Joining …"), tempfile.TemporaryDirectory() as folder:
            run_hotkey(Path(folder) / "compiled", rows=100, references=int(streams), batches=1)
            measured = run_hotkey(Path(folder) / "measured", rows=rows, references=int(streams))
        console.print(hotkey_table(measured))
        found = plain_json("hotkey", measured)
        if spark:
            found["spark"] = _beside_spark("hotkey", rows, debug=debug)
        _write(json_file, found)


def _beside_spark(what: Literal["band", "hotkey"], rows: int, *, debug: bool) -> dict[str, Any]:
    """Run the join of two streams on Spark in both ways, and show it."""
    with _bench(None, None, debug=debug) as (spark, folder, console):
        from anabranch.bench.joins.bucket_peers import band_beside_spark, hot_key_beside_spark
        from anabranch.bench.report import beside_spark_table

        run = band_beside_spark if what == "band" else hot_key_beside_spark
        with console.status("Joining on Spark …"):
            found: BesideSpark = run(spark, folder, rows=rows)
        console.print(beside_spark_table(found))
        return asdict(found) | {"ratio": found.ratio}

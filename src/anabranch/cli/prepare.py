"""`anabranch prepare`: what the first run on a machine would have to wait for, done once."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from anabranch.cli.screen.figures import duration, size
from anabranch.cli.screen.telling import Debug, telling
from anabranch.cli.spark_start import start_spark
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Stream

_END_WAIT_S = 300.0

_FLOW = """
CREATE STREAM orders (id BIGINT, name STRING, amount DOUBLE, ts TIMESTAMP)
  FROM csv '{folder}/orders' TIME ts LATENESS 5 SECONDS;
CREATE STREAM payments (id BIGINT, name STRING, paid DOUBLE, ts TIMESTAMP)
  FROM json '{folder}/payments' TIME ts LATENESS 5 SECONDS;
CREATE QUERY joined INTO parquet '{folder}/joined' AS
  SELECT o.id, p.paid FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 1 HOUR] AS p
  WHERE o.id = p.id AND p.paid < o.amount;
CREATE QUERY three INTO parquet '{folder}/three' AS
  SELECT o.id, q.name
  FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 1 HOUR] AS p, orders [RANGE 1 HOUR] AS q
  WHERE o.name = p.name AND p.name = q.name;
CREATE QUERY totals INTO parquet '{folder}/totals' AS
  SELECT name, count(*) AS n, sum(amount) AS total, min(amount) AS least, max(amount) AS most
  FROM orders [RANGE 1 MINUTE] GROUP BY name;
"""
_NEAR = (
    "SELECT a.x FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] "
    "WHERE abs(a.x - b.x) <= 1 AND abs(b.x - c.x) <= 1"
)
_ORDERS = "".join(f"{n},n{n % 2},{n}.5,2026-01-01 00:00:{n:02d}\n" for n in range(4))
_PAYMENTS = "".join(
    f'{{"id": {n}, "name": "n{n % 2}", "paid": {n}, "ts": "2026-01-01 00:00:{n:02d}"}}\n' for n in range(4)
)


def prepare(
    archive: Annotated[
        bool, typer.Option(help="Also archive Spark's classes (about 170 MiB in your cache directory).")
    ] = True,
    debug: Debug = False,
) -> None:
    """Compile kernels and archive Spark's classes, so that later starts are faster. Once per installation."""
    from anabranch.spark.start.class_archive import archive_path

    console = Console()
    target = archive_path() if archive else None
    began = time.perf_counter()
    with telling(debug=debug), tempfile.TemporaryDirectory(prefix="anabranch-prepare-") as folder:
        console.print("Starting Spark, running a small flow, compiling kernels …")
        if target is None:
            _run_flow(Path(folder), "", debug=debug)
        else:
            _write_archive(console, Path(folder), target, debug=debug)
        _route_along_paths(Path(folder))
    console.print(f"Ready after {duration(time.perf_counter() - began)}.", highlight=False)


def _route_along_paths(folder: Path) -> None:
    """Let a few rows take coordinated paths, whose kernels no small flow would come to."""
    from anabranch.engine.local_driver import LocalRun
    from anabranch.engine.settings import Settings
    from anabranch.engine.warm_up import made_up_rows

    columns = (Column("x", "double"), Column("ts", "timestamp"))
    streams = {name: Stream(name, columns, "ts") for name in "abc"}
    settings = Settings(sites=4, slots=1, routing="coordinated")
    run = LocalRun(
        folder / "paths", list(streams.values()), [bind_query("near", _NEAR, streams)], settings=settings
    )
    for batch in range(3):
        run.batch({name: made_up_rows(stream, batch) for name, stream in streams.items()})
    run.close()


def _write_archive(console: Console, folder: Path, target: Path, *, debug: bool) -> None:
    from anabranch.spark.start.class_archive import options_to_write

    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that whoever starts meanwhile finds a whole archive or none.
    written = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        gateway = _run_flow(folder, options_to_write(written), debug=debug)
        console.print("Archiving Spark's classes …")
        gateway.proc.stdin.close()  # the JVM ends with its input, and then writes
        gateway.proc.wait(_END_WAIT_S)
        if written.is_file():
            written.replace(target)
            told = f"Wrote {target} ({size(target.stat().st_size)}); it may be deleted at any time."
            console.print(told, highlight=False, soft_wrap=True)
        else:
            console.print("This Java writes no archive; kernels are compiled all the same.")
    finally:
        written.unlink(missing_ok=True)


def _run_flow(folder: Path, java_options: str, *, debug: bool) -> Any:
    """Run a small flow to its end; the gateway of the JVM that ran it."""
    for stream, file, text in (("orders", "a.csv", _ORDERS), ("payments", "a.json", _PAYMENTS)):
        (folder / stream).mkdir()
        (folder / stream / file).write_text(text, encoding="utf-8")
    from anabranch.spark.session import Session
    from anabranch.spark.start.spark_session import DEFAULTS, JAVA_OPTIONS

    spark = start_spark(conf={JAVA_OPTIONS: f"{DEFAULTS[JAVA_OPTIONS]} {java_options}"}, debug=debug)
    session = Session(spark, folder / "checkpoint")
    session.load(parse_flow(_FLOW.format(folder=folder)))
    session.start(availableNow=True, endOfInput=True).awaitTermination()
    gateway = spark.sparkContext._gateway
    spark.stop()
    return gateway

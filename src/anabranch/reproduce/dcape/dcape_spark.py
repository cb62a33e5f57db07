"""The settings of dcape-fig7 on Spark itself: other tasks, other processes, the same results."""

from __future__ import annotations

import tempfile
from pathlib import Path

from anabranch.bench.same_results import Digest, digest_of
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.reproduce.dcape.dcape_load import COLUMNS, NAMES, SITES, Load
from anabranch.reproduce.dcape.dcape_run import Setting
from anabranch.spark.session import Session
from anabranch.spark.start.spark_session import spark_session
from anabranch.workloads.spark_hash import xxhash64_longs
from anabranch.workloads.stream_files import StreamFiles, write_stream


def results_on_spark(load: Load, settings: dict[str, Setting]) -> dict[str, Digest]:
    """By setting, what a session of it gives."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        tables = list(load.tables(xxhash64_longs))
        files = [
            write_stream(root / "data", name, len(tables), lambda batch, n=name: tables[batch][n])  # type: ignore[misc]
            for name in NAMES
        ]
        return {name: _run(load, files, root / name, setting) for name, setting in settings.items()}


def _run(load: Load, files: list[StreamFiles], scratch: Path, setting: Setting) -> Digest:
    spark = spark_session("local[2]")
    session = Session(
        spark,
        scratch / "checkpoint",
        sites=SITES,
        isolation="per_site",
        rebalance=setting.rebalance,
        migration=setting.migration,
    )
    for stream in files:
        reader = spark.readStream.schema(stream.ddl).option("maxFilesPerTrigger", 1)
        session.stream(stream.name, reader.parquet(str(stream.path)), time="ts", lateness="0 seconds")
    session.query("q", load.text, ParquetSink(scratch / "out"))
    session.start(availableNow=True).awaitTermination()
    return digest_of(scratch / "out", COLUMNS)

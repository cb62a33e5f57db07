"""Sinks that are named by a format, a path and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.sink import Sink
from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Connector
from anabranch.spark.sinks.connected_sink import connected_sink
from anabranch.spark.sinks.writer_sink import WriterSink
from tests.engine.nasty_runs import rows, stream

A = stream("a")


def sink_of(kind: str, path: str | None = None, **options: str) -> Sink:
    no_spark: Any = None  # nothing is asked of it before the sink is opened
    return connected_sink(no_spark, "q", Connector(kind, path, tuple(options.items())))


def run_into(connector: Connector, root: Path, count: int = 3) -> None:
    query = bind_query("q", "SELECT id FROM a", {"a": A}, sink=connector)
    sinks = {"q": sink_of(connector.format, connector.path, **dict(connector.options))}
    run = LocalRun(root, [A], [query], sinks=sinks)
    run.batch({"a": rows(*((1, i) for i in range(count)))})
    run.close()


@pytest.mark.parametrize(("asked", "found"), [("zstd", "ZSTD"), ("none", "UNCOMPRESSED"), (None, "SNAPPY")])
def test_files_are_compressed_as_asked_and_still_written_exactly_once(
    tmp_path: Path, asked: str | None, found: str
) -> None:
    options = (("Compression", asked),) if asked else ()
    assert isinstance(sink_of("parquet", str(tmp_path / "out"), **dict(options)), ParquetSink)
    run_into(Connector("parquet", str(tmp_path / "out"), options), tmp_path / "checkpoint")
    (file,) = (tmp_path / "out").glob("q-0*.parquet")
    assert pq.read_metadata(file).row_group(0).column(0).compression == found
    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_the_console_shows_as_many_rows_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_into(Connector("console", options=(("numRows", "2"),)), tmp_path)
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line[:5] for line in shown] == ["  id=", "  id=", "  … a"]


@pytest.mark.parametrize(
    ("kind", "path", "options", "message"),
    [
        ("parquet", "out", {"mergeSchema": "true"}, "'mergeSchema': choose from compression"),
        ("parquet", "out", {"compression": "lzo"}, "choose from snappy, zstd"),
        ("parquet", "out", {"compactEvery": "often"}, "compactEvery = 'often': a whole number is needed"),
        ("parquet", "out", {"compactEvery": "1"}, "give 2 or more batches"),
        ("parquet", None, {}, "INTO parquet 'path'"),
        ("csv", None, {"header": "true"}, "INTO csv 'path'"),
        ("console", None, {"truncate": "false"}, "'truncate': choose from numRows"),
        ("console", None, {"numRows": "few"}, "a whole number is needed"),
        ("console", "out", {}, "takes no path"),
        ("memory", None, {"numRows": "5"}, "it takes none"),
    ],
)
def test_what_would_be_ignored_is_refused(
    kind: str, path: str | None, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_of(kind, path, **options)


def test_options_of_other_formats_are_left_to_spark() -> None:
    assert isinstance(sink_of("csv", "out", header="true"), WriterSink)
    assert isinstance(sink_of("json", path="out", compression="gzip"), WriterSink)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "hint"), [("prquet", "did you mean parquet"), ("nosuch.thing", "package")])
def test_a_format_that_spark_does_not_have_is_refused_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, kind: str, hint: str
) -> None:
    (tmp_path / "in").mkdir()
    session = ab.Session(spark, tmp_path / "checkpoint")
    frame = spark.readStream.schema("k bigint, ts timestamp").parquet(str(tmp_path / "in"))
    session.stream("s", frame, time="ts")
    session.query("q", "SELECT k FROM s", Connector(kind, str(tmp_path / "out")))
    with pytest.raises(ConfigError, match=f"INTO {kind}: Spark has no such format; .*{hint}"):
        session.start(availableNow=True)
    assert not (tmp_path / "checkpoint" / "manifests").exists()


@pytest.mark.spark
def test_a_format_that_only_writes_is_not_refused(spark: SparkSession) -> None:
    sink = connected_sink(spark, "q", Connector("noop"))
    sink.open("q", pa.schema({"k": pa.int64()}))
    assert isinstance(sink, WriterSink)

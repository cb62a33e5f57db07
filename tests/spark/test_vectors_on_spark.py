"""Vectors that Spark reads from files: the same distances, the same rows malformed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.language.flow import parse_flow
from tests.engine.test_vectors import LENGTH, TEXT, check, vectors

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["parquet", "json", "select"])
def test_distances_of_arrays_in_files_are_those_of_duckdb(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    draw = np.random.default_rng(7)
    batch = {name: vectors(draw, 60, 10, bad=True) for name in "ab"}
    for name, rows in batch.items():
        (tmp_path / name).mkdir()
        if kind != "json":
            pq.write_table(rows, tmp_path / name / "rows.parquet")
        else:
            lines = (json.dumps({**row, "ts": row["ts"].isoformat() + "Z"}) for row in rows.to_pylist())
            (tmp_path / name / "rows.json").write_text("\n".join(lines))
    declared = (
        "CREATE STREAM {name} (id BIGINT, v {number}[5], ts TIMESTAMP) FROM {kind} '{path}' TIME ts;\n"
        if kind != "select"
        else "CREATE STREAM {name} (id BIGINT, v ARRAY<DOUBLE>, ts TIMESTAMP) FROM parquet '{path}' "
        "AS SELECT id, CAST(v AS {number}[5]) AS v, ts WHERE id >= 0 TIME ts;\n"
    )
    numbers = {"a": "DOUBLE", "b": "DOUBLE" if kind == "parquet" else "FLOAT"}
    streams = "".join(
        declared.format(name=name, number=number, kind=kind, path=tmp_path / name)
        for name, number in numbers.items()
    )
    session = ab.Session(spark, tmp_path / "checkpoint", sites=3, slots=2)
    session.load(parse_flow(f"{streams}CREATE QUERY q INTO parquet '{tmp_path / 'out'}' AS {TEXT};"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    assert check(pq.read_table(tmp_path / "out").select(["a", "b", "last"]), [batch]) > 10
    letters = pq.read_table(tmp_path / "checkpoint" / "dead_letters").to_pylist()
    assert [row["reason"] for row in letters] == ["malformed vector: v is not 5 numbers"] * 6
    assert {name: run.lastProgress.streams[name].rejected for name in "ab"} == {"a": 3, "b": 3}


def test_arrays_of_a_dataframe_are_vectors_of_a_declared_length(spark: SparkSession, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    batch = {name: vectors(draw, 60, 10, bad=True) for name in "ab"}
    session = ab.Session(spark, tmp_path / "checkpoint", sites=2, slots=2)
    for name, rows in batch.items():
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "rows.parquet")
        frame = spark.readStream.schema("id BIGINT, v ARRAY<DOUBLE>, ts TIMESTAMP").parquet(
            str(tmp_path / name)
        )
        with pytest.raises(ConfigError, match=r"'id' of stream .* cannot be a vector, it is a bigint"):
            session.stream(name, frame, time="ts", vectors={"id": 3})
        with pytest.raises(ConfigError, match="cannot have 0 numbers"):
            session.stream(name, frame, time="ts", vectors={"v": 0})
        session.stream(name, frame, time="ts", vectors={"V": LENGTH})
    session.query("q", TEXT, sink=ab.parquet(tmp_path / "out"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    assert check(pq.read_table(tmp_path / "out").select(["a", "b", "last"]), [batch]) > 10
    assert {name: run.lastProgress.streams[name].rejected for name in "ab"} == {"a": 3, "b": 3}

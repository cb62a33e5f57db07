"""Vectors that Spark reads from files: the same distances, the same rows malformed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.language.flow import parse_flow
from tests.engine.test_vectors import LENGTH, TEXT, check, vectors

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_distances_of_arrays_in_files_are_those_of_duckdb(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    draw = np.random.default_rng(7)
    batch = {name: vectors(draw, 60, 10, bad=True) for name in "ab"}
    for name, rows in batch.items():
        (tmp_path / name).mkdir()
        if kind == "parquet":
            pq.write_table(rows, tmp_path / name / "rows.parquet")
        else:
            lines = (json.dumps({**row, "ts": row["ts"].isoformat() + "Z"}) for row in rows.to_pylist())
            (tmp_path / name / "rows.json").write_text("\n".join(lines))
    streams = "".join(
        f"CREATE STREAM {name} (id BIGINT, v {number}[{LENGTH}], ts TIMESTAMP) FROM {kind} "
        f"'{tmp_path / name}' TIME ts;\n"
        for name, number in (("a", "DOUBLE"), ("b", "FLOAT" if kind == "json" else "DOUBLE"))
    )
    session = ab.Session(spark, tmp_path / "checkpoint", sites=3, slots=2)
    session.load(parse_flow(f"{streams}CREATE QUERY q INTO parquet '{tmp_path / 'out'}' AS {TEXT};"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    assert check(pq.read_table(tmp_path / "out").select(["a", "b", "last"]), [batch]) > 10
    letters = pq.read_table(tmp_path / "checkpoint" / "dead_letters").to_pylist()
    assert [row["reason"] for row in letters] == ["malformed vector: v is not 5 numbers"] * 6
    assert {name: run.lastProgress.streams[name].rejected for name in "ab"} == {"a": 3, "b": 3}

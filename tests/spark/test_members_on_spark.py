"""Members join and leave while Spark runs: its query goes on, and all of them write to one place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.adapt.events import EventKind
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.engine.nasty_runs import bind
from tests.spark.spark_sessions import write_batches
from tests.support.oracle_check import check_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TEXT = joined("a", "b").text
NARROW = f"{TEXT} AND a.v > 1 AND b.k <> 3"
ONES = "SELECT id AS a, id AS b FROM a WHERE v = 1"


def test_members_come_and_go_and_nobody_waits(spark: SparkSession, tmp_path: Path) -> None:
    batches = steady_batches(5)
    heard: list[pa.Table] = []

    def hear(rows: DataFrame, batch: int) -> None:
        heard.append(rows.toArrow())

    with ab.Session(spark, tmp_path / "ck", sites=2, sharing="open") as session:
        for s in STREAMS[:2]:
            (tmp_path / s.name).mkdir()
            reader = spark.readStream.schema("id INT, k BIGINT, v INT, ts TIMESTAMP")
            frame = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / s.name))
            session.stream(s.name, frame, time="ts", lateness=f"{s.lateness_us} microseconds")
        alerts = ab.shared(ab.parquet(tmp_path / "all"))
        session.query("base", TEXT, alerts)
        session.query("ones", ONES, hear)
        session.query("ones too", f"{ONES} AND k > 2", hear)
        write_batches(tmp_path, STREAMS[:2], batches[:2])
        run = session.start()
        run.processAllAvailable()
        run.add("it's", NARROW, alerts)
        run.processAllAvailable()
        write_batches(tmp_path, STREAMS[:2], batches[2:4], first=2)
        run.processAllAvailable()
        run.drop("it's")
        run.processAllAvailable()
        write_batches(tmp_path, STREAMS[:2], batches[4:], first=4)
        run.processAllAvailable()
        assert EventKind.INGEST_RESTARTED not in [event.kind for event in run.events]
        assert run.exception() is None
        run.stop()
    models = accepted_rows(STREAMS, batches)
    found = pq.read_table(tmp_path / "all")
    for name, text, first, last, rows in (
        ("base", TEXT, 0, 5, found),
        ("it's", NARROW, 2, 4, found),
        ("ones", ONES, 0, 5, pa.concat_tables(heard)),
        ("ones too", f"{ONES} AND k > 2", 0, 5, pa.concat_tables(heard)),
    ):
        (query,) = bind(STREAMS, **{name: text})
        tables = {s: model.rows_for(query, first, last) for s, model in models.items()}
        mine = rows.filter(pc.equal(rows.column("query"), name)).drop_columns(["query"])
        assert mine.num_rows
        check_rows(mine, expected_rows(query, STREAMS, tables), what=name)

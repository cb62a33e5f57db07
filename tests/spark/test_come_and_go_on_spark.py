"""Queries that come and go while Spark runs: ingest is started anew where it must be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from anabranch.adapt.events import EventKind
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.engine.test_come_and_go import TEXTS, results
from tests.spark.spark_sessions import write_batches
from tests.support.oracle_check import check_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = "\n".join(
    f"CREATE STREAM {s.name} (id INT, k BIGINT, v INT, ts TIMESTAMP) FROM parquet '{{root}}/{s.name}' "
    f"OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS {s.lateness_us} MICROSECONDS;"
    for s in STREAMS
)
BASE = f"CREATE QUERY base INTO parquet '{{root}}/base' AS {joined('a', 'b').text};"


def test_queries_come_and_go_while_spark_runs_and_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = steady_batches(6)
    (tmp_path / "flow.sql").write_text((FLOW + BASE).replace("{root}", str(tmp_path)))
    write_batches(tmp_path, STREAMS, batches[:2])
    with ab.Session(spark, tmp_path / "ck", sites=2) as session:
        session.load(tmp_path / "flow.sql")
        run = session.start()
        run.processAllAvailable()
        run.add("ones", TEXTS["ones"], ab.parquet(tmp_path / "ones"))  # reads c, which nobody did
        run.add("others", TEXTS["others"], ab.parquet(tmp_path / "others"))
        run.processAllAvailable()
        first = run.lastProgress
        assert first is not None
        write_batches(tmp_path, STREAMS, batches[2:4], first=2)
        run.processAllAvailable()
        run.drop("others")
        run.processAllAvailable()
        last = run.lastProgress
        assert last is not None
        write_batches(tmp_path, STREAMS, batches[4:5], first=4)
        run.processAllAvailable()
        kinds = [event.kind for event in run.events]
        assert kinds.count(EventKind.INGEST_RESTARTED) == 1
        assert kinds.count(EventKind.QUERY_ADDED) == 2
        assert kinds.count(EventKind.QUERY_DROPPED) == 1
        run.stop()
    write_batches(tmp_path, STREAMS, batches[5:], first=5)
    with ab.Session(spark, tmp_path / "ck", sites=2) as session:
        session.load(tmp_path / "flow.sql")
        session.start(availableNow=True).awaitTermination()
    models = accepted_rows(STREAMS, batches)
    # The source of a stream that nobody has read so far begins with its first file.
    all_batches = {s.name: (0, 6) for s in STREAMS}
    for name, text, batches_of in (
        ("base", joined("a", "b").text, all_batches),
        ("ones", TEXTS["ones"], all_batches),
        ("others", TEXTS["others"], {**all_batches, "b": (2, 4), "d": (0, 4)}),
    ):
        (query,) = ab.parse_flow(f"{FLOW}CREATE QUERY {name} INTO console AS {text};").queries
        found = results(tmp_path / name, query)
        tables = {s: model.rows_for(query, *batches_of[s]) for s, model in models.items()}
        check_rows(found, expected_rows(query, STREAMS, tables), what=text)
        assert found.num_rows

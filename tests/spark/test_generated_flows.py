"""Generated flow files on Spark: SELECTs at ingest, windows, functions, tables; with moves and a restart."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query, parse_flow
from anabranch.spark.reading.prepared import same_everywhere
from anabranch.testing.stream_model import StreamModel, expected_rows, scratch
from tests.spark.spark_sessions import write_batches
from tests.support.generated_flows import LABELS, TABLE, FlowCase, flow_cases
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

pytestmark = pytest.mark.spark

BY_LABEL = """SELECT t.label, make_timestamp(epoch_us(a.ts) - epoch_us(a.ts) % 4) AS start, count(*) AS n,
    count(DISTINCT a.id) AS ids FROM s0 a JOIN t ON a.id % 4 = t.k GROUP BY ALL"""
LABELLED = pa.table(
    {"k": pa.array([k for k, _ in LABELS], pa.int32()), "label": [label for _, label in LABELS]}
)


def flow_of(case: FlowCase, root: Path) -> str:
    columns = ", ".join(f"`{c.name}` {c.type}" for c in case.stream.columns)
    return f"""
    CREATE STREAM s0 ({columns}) FROM parquet '{root}/s0' OPTIONS (maxFilesPerTrigger = 1) AS
      SELECT {", ".join(case.items)} WHERE {case.where}
      TIME ts LATENESS {case.stream.lateness_us} MICROSECONDS;
    CREATE TABLE t (k INT, label STRING) FROM parquet '{root}/t';
    """


def ingested(spark: SparkSession, case: FlowCase, files: str) -> DataFrame:
    """What Spark makes of files in one batch."""
    schema = ", ".join(f"`{c.name}` {c.type}" for c in case.stream.columns)
    return spark.read.schema(schema).parquet(files).where(case.where).selectExpr(*case.items)


def without_zone(rows: pa.Table) -> pa.Table:
    plain = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(plain))


def check_flow(spark: SparkSession, case: FlowCase) -> None:
    queries = {f"w{i}": text for i, text in enumerate(case.queries)} | TABLE | {"computed": case.computed}
    sinks, model, written = {name: MemorySink() for name in queries}, StreamModel(case.stream), 0
    with scratch() as root, same_everywhere(spark):
        (root / "t").mkdir()
        pq.write_table(LABELLED, root / "t" / "t.parquet")
        for number, (sites, batches) in enumerate(case.phases):
            write_batches(root, [case.stream], batches, first=written)
            session = ab.Session(spark, root / "checkpoint", sites=sites)
            session.decider = RestlessDecider(case.seed)
            session.load(parse_flow(flow_of(case, root)))
            for name, text in queries.items():
                session.query(name, text, sinks[name])
            session.start(availableNow=True, endOfInput=number == len(case.phases) - 1).awaitTermination()
            for file in range(written, written + len(batches)):
                model.take(without_zone(ingested(spark, case, f"{root}/s0/{file:05d}.parquet").toArrow()))
            written += len(batches)
        ingested(spark, case, f"{root}/s0").createOrReplaceTempView("s0")
        spark.read.parquet(f"{root}/t").createOrReplaceTempView("t")
        found = {name: sink.table() for name, sink in sinks.items()}
        for name in ("labels", "computed"):
            check_rows(found[name], spark.sql(queries[name]).toArrow(), what=queries[name])
    accepted = pa.concat_tables(model.accepted)
    with duckdb.connect() as connection:
        connection.register("s0", accepted)
        connection.register("t", LABELLED)
        check_rows(found["by_label"], connection.sql(BY_LABEL).to_arrow_table(), what=TABLE["by_label"])
    for i, text in enumerate(case.queries):
        query = bind_query(f"w{i}", text, {"s0": case.stream})
        check_rows(found[query.name], expected_rows(query, [case.stream], {"s0": accepted}), what=text)


@settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Stage.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(case=flow_cases())
def test_a_generated_flow_file_gives_what_duckdb_and_spark_give(spark: SparkSession, case: FlowCase) -> None:
    check_flow(spark, case)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, phases=(Stage.generate,), suppress_health_check=list(HealthCheck))
@given(case=flow_cases())
def test_many_generated_flow_files_give_what_duckdb_and_spark_give(
    spark: SparkSession, case: FlowCase
) -> None:
    check_flow(spark, case)

"""Generated sessions on a real Spark, through the public API, against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.testing.stream_model import scratch
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.generated import Case, cases
from tests.support.oracle_check import check_results

pytestmark = pytest.mark.spark


def check_on_spark(spark: SparkSession, case: Case) -> None:
    sinks = {q.name: MemorySink() for q in case.phases[0].queries}
    texts = {q.name: q.text for q in case.phases[0].queries}
    written = 0
    with scratch() as root:
        for phase in case.phases:
            write_batches(root, case.streams, phase.batches, first=written)
            written += len(phase.batches)
            run_to_the_end(
                spark,
                root,
                case.streams,
                texts,
                sinks,
                sites=phase.settings.sites,
                slots=phase.settings.slots,
                max_blocks=phase.settings.max_blocks,
            )
        check_results(case, {name: sink.table() for name, sink in sinks.items()})


@settings(
    max_examples=10,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Stage.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(case=cases(on_spark=True))
def test_a_session_on_spark_gives_what_the_oracle_gives(spark: SparkSession, case: Case) -> None:
    check_on_spark(spark, case)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, phases=(Stage.generate,), suppress_health_check=list(HealthCheck))
@given(case=cases(on_spark=True))
def test_many_sessions_on_spark_give_what_the_oracle_gives(spark: SparkSession, case: Case) -> None:
    check_on_spark(spark, case)

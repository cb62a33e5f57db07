"""Groups of queries on a real Spark: filters, casts and columns of representatives are its SQL."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.queries import groups
from anabranch.queries.benefit import Benefit
from anabranch.testing.stream_model import scratch
from tests.queries.generated_groups import STREAMS, A, B, _batch, filtered, joined
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.generated import Case, Phase
from tests.support.oracle_check import check_results

pytestmark = pytest.mark.spark


def test_members_get_what_the_oracle_gives_on_spark(spark: SparkSession) -> None:
    rng = random.Random(5)
    texts = {f"q{i}": rng.choice((joined, joined, filtered))(rng) for i in range(20)}
    texts["odd"] = "SELECT a.id FROM a WHERE a.k % 2 = 1 AND a.v > 0"
    texts["odd too"] = "SELECT a.s FROM a WHERE a.k % 2 = 1 AND a.v > 1"
    queries = tuple(bind_query(name, text, STREAMS) for name, text in texts.items())
    sinks = {name: MemorySink() for name in texts}
    batches = tuple(_batch(rng, i) for i in range(3))
    with scratch() as root, mock.patch.object(groups, "benefit", return_value=Benefit(1.0, 0.0)):
        write_batches(root, (A, B), batches, first=0)
        run_to_the_end(spark, root, (A, B), texts, sinks, sites=3, slots=2, sharing="auto")
        assert len(groups.group_queries(queries, (A, B))) < len(queries) / 2
    case = Case((A, B), (Phase(queries, None, batches),))  # type: ignore[arg-type]
    check_results(case, {name: sink.table() for name, sink in sinks.items()})

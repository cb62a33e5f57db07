"""Results as messages: their columns, their ids, and what is refused before there are any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector
from anabranch.spark.failures import explain_failure
from anabranch.spark.kafka.kafka_sink import DELIVERY_ID, KafkaSink, as_messages
from anabranch.spark.sinks.connected_sink import connected_sink

SERVERS = ("kafka.bootstrap.servers", "127.0.0.1:9092")
NO_SPARK: Any = None


def sink_of(path: str | None, *options: tuple[str, str]) -> KafkaSink:
    sink = connected_sink(NO_SPARK, "q", Connector("kafka", path, options))
    assert isinstance(sink, KafkaSink)
    return sink


def test_a_sink_has_a_topic_and_its_brokers() -> None:
    assert sink_of("out", SERVERS).topic == "out"
    assert sink_of(None, SERVERS, ("topic", "out")).topic == "out"
    with pytest.raises(ConfigError, match="INTO kafka 'topic'"):
        sink_of(None, SERVERS)
    with pytest.raises(ConfigError, match=r"OPTIONS \(kafka.bootstrap.servers"):
        sink_of("out")


@pytest.mark.parametrize(
    ("names", "message"),
    [(["key", "value", "id"], "id would be lost"), (["key"], "needs more than its key")],
)
def test_columns_that_make_no_message_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_of("out", SERVERS).open("q", pa.schema([(name, pa.int64()) for name in names]))


@pytest.mark.spark
def test_a_message_has_the_same_id_whenever_it_is_sent_and_no_other_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"key": [1, 1, None], "n": [7, 7, None]})
    for name in ("first", "second"):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=2)

    def sent(number: int) -> list[tuple[str | None, dict[str, Any], str]]:
        messages = as_messages(spark.read.parquet(str(tmp_path)), number).collect()
        assert all([header.key for header in m.headers] == [DELIVERY_ID] for m in messages)
        return sorted((m.key or "", json.loads(m.value), m.headers[0].value.decode()) for m in messages)

    once, again = sent(12), sent(12)
    assert once == again
    assert len({identity for *_, identity in once}) == 6
    assert all(identity.startswith("12-") for *_, identity in once)
    assert [(key, value) for key, value, _ in once] == [("", {"n": None})] * 2 + [("1", {"n": 7})] * 4
    assert not {identity for *_, identity in once} & {identity for *_, identity in sent(13)}


@pytest.mark.spark
def test_a_spark_without_the_connector_is_told_which_jars_it_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    lacking = "needs Spark's Kafka connector.*spark-sql-kafka-0-10_2.13:4.2.0.*docs/kafka.md"
    sink = connected_sink(spark, "q", Connector("kafka", "out", (SERVERS,)))
    with pytest.raises(ConfigError, match=f"query 'q' {lacking}"):
        sink.open("q", pa.schema([("id", pa.int64())]))
    session = ab.Session(spark, tmp_path / "checkpoint")
    text = f"""CREATE STREAM s (value BINARY, timestamp TIMESTAMP)
      FROM kafka 'in' OPTIONS ({SERVERS[0]} = '{SERVERS[1]}') TIME timestamp;
    CREATE QUERY q INTO memory AS SELECT value FROM s;"""
    session.load(ab.parse_flow(text))
    with pytest.raises(ConfigError, match=f"stream 's' {lacking}"):
        session.start(availableNow=True)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("org.apache.kafka.common.errors.TimeoutException: Call: listNodes", "Kafka does not answer"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no", "Kafka has no such topic"),
        ("java.lang.IllegalStateException: Cannot fetch offset 17 (…)", "failOnDataLoss"),
    ],
)
def test_failures_of_kafka_are_told_in_its_words(raised: str, said: str) -> None:
    assert said in str(explain_failure(RuntimeError(f"terminated with exception: {raised}")))

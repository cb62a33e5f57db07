"""The Kafka sink: results as messages, each with an id by which a consumer knows it again.

    step 12   ├── messages of a step ──┤          the process dies before it notes that the step is delivered
    step 12   ├── messages of a step ──┤          after the restart: the same messages, with the same ids
    step 13                             ├── …     no other step comes twice

Kafka takes what it is sent, and a producer that is gone cannot take it back. What is delivered twice is at
most the last step before a crash, and every message of it has the id that it had the first time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import ConfigError
from anabranch.language.shared_columns import QUERY
from anabranch.spark.kafka.connector import KAFKA, connector_missing, lacks_connector
from anabranch.spark.sinks.function_sink import read_results

DELIVERY_ID = "delivery_id"
"""The header of a message that names its delivery."""
SERVERS = "kafka.bootstrap.servers"
_KEY, _VALUE = "key", "value"


class KafkaSink:
    """Messages of one topic; at least once, told apart by their delivery ids.

    A column `key` is the key of the message. A column `value` is the message; without one, the other columns
    are, as a JSON object. Beside `value`, a column `query` becomes a header: queries may share a topic.
    """

    def __init__(
        self, spark: SparkSession, query: str, topic: str | None, options: Mapping[str, str]
    ) -> None:
        given = {name.lower(): value for name, value in options.items()}
        topic = topic or given.get("topic")
        if not topic:
            raise ConfigError(f"query {query!r}: kafka needs a topic: write INTO kafka 'topic'")
        if SERVERS not in given:
            raise ConfigError(
                f"query {query!r}: kafka needs its brokers: add OPTIONS ({SERVERS} = 'host:9092, …')"
            )
        self._spark = spark
        self.topic = topic
        self.options = dict(options)

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for sinks that send to one topic."""
        servers = next(value for name, value in self.options.items() if name.lower() == SERVERS)
        return KAFKA, servers, self.topic

    def open(self, query: str, schema: pa.Schema) -> None:
        """Refuse columns that make no message, and a Spark without the connector."""
        _check_columns(query, schema.names)
        try:
            self._spark.read.format(KAFKA).load()
        except (PySparkException, TypeError) as error:
            if lacks_connector(error):
                raise ConfigError(connector_missing(f"query {query!r}")) from error

    def publish(self, results: ResultBatch) -> None:
        if results.files:
            messages = as_messages(read_results(self._spark, results), results.number)
            writer = messages.write.format(KAFKA).options(**self.options)
            writer.option("topic", self.topic).mode("append").save()


def as_messages(results: DataFrame, number: int) -> DataFrame:
    """Rows of result files as Kafka's columns.

    The delivery id is the number of the step, a hash of the file's name, which no other file of any
    checkpoint has, and the row's place in it: files of a committed step do not change.
    """
    file = F.hex(F.xxhash64(F.col("_metadata.file_name")))
    place = F.col("_metadata.row_index").cast("string")
    identity = F.concat_ws("-", F.lit(str(number)), file, place).cast("binary")
    headers = [F.struct(F.lit(DELIVERY_ID).alias("key"), identity.alias("value"))]
    if {QUERY, _VALUE} <= set(results.columns):
        query = F.col(QUERY).cast("binary").alias("value")
        headers.append(F.struct(F.lit(QUERY).alias("key"), query))
    columns = [_value(results.columns).alias(_VALUE), F.array(*headers).alias("headers")]
    if _KEY in results.columns:
        columns.append(_as_bytes(results, _KEY))
    return results.select(*columns)


def _value(names: Sequence[str]) -> Column:
    if _VALUE in names:
        return F.col(_VALUE)
    fields = [F.col(f"`{name}`") for name in names if name != _KEY]
    return F.to_json(F.struct(*fields), {"ignoreNullFields": "false"})


def _as_bytes(results: DataFrame, name: str) -> Column:
    kind = results.schema[name].dataType.simpleString()
    return F.col(name) if kind == "binary" else F.col(name).cast("string").alias(name)


def _check_columns(query: str, names: Sequence[str]) -> None:
    if _VALUE in names and (others := [n for n in names if n not in (_KEY, _VALUE, QUERY)]):
        raise ConfigError(
            f"query {query!r}: the column value is the whole message, and {', '.join(others)} would be lost: "
            "leave value out to have all columns as JSON, or select only key and value"
        )
    if list(names) == [_KEY]:
        raise ConfigError(f"query {query!r}: a message needs more than its key: select another column")

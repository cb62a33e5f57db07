"""A Kafka client of the JVM that asks brokers how far topics go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

from anabranch.spark.kafka.topics import Offsets

ANSWER_SECONDS = 5
"""How long brokers may take to answer."""
_PREFIX = "kafka."
_READ_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class BrokerClient:
    """Asks the brokers that the options of a reader or writer name; used by one thread at a time."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm
        self._options = options
        self._consumer: Any = None

    def latest(self, topics: Sequence[str]) -> Offsets | None:
        """The next message's number by topic and partition; None if nobody answers in time."""
        try:
            return self._latest(topics)
        except Py4JNetworkError:
            raise
        except Py4JJavaError:
            return None

    def close(self) -> None:
        if self._consumer is not None:
            with suppress(Py4JError):
                self._consumer.close(self._jvm.java.time.Duration.ZERO)

    def _latest(self, topics: Sequence[str]) -> Offsets:
        if self._consumer is None:
            self._consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(self._properties())
        wait = self._jvm.java.time.Duration.ofSeconds(ANSWER_SECONDS)
        new = self._jvm.org.apache.kafka.common.TopicPartition
        if not topics:  # a pattern that has found nothing yet: ask all the same, to hear whether they answer
            self._consumer.listTopics(wait)
        partitions = [
            new(topic, info.partition())
            for topic in topics
            for info in self._consumer.partitionsFor(topic, wait) or ()
        ]
        found: dict[str, dict[int, int]] = {}
        if partitions:
            for partition, offset in self._consumer.endOffsets(partitions, wait).items():
                found.setdefault(partition.topic(), {})[partition.partition()] = int(offset)
        return found

    def _properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in self._options.items():
            if name.startswith(_PREFIX):
                properties.put(name.removeprefix(_PREFIX), value)
        own = {
            "key.deserializer": _READ_BYTES,
            "value.deserializer": _READ_BYTES,
            "allow.auto.create.topics": "false",  # to ask for a topic must not make it
            "enable.auto.commit": "false",
        }
        for name, value in own.items():
            properties.put(name, value)
        return properties

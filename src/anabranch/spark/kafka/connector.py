"""Spark's Kafka connector: which packages it takes, and what to say when it is not there."""

from __future__ import annotations

import re

KAFKA = "kafka"
PACKAGES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""What works with Spark 4.3.0, for which no connector was published; the tests run with these."""


def is_kafka(kind: str) -> bool:
    """Whether a format is Kafka's; Spark does not mind the case."""
    return kind.lower() == KAFKA


def lacks_connector(error: Exception) -> bool:
    """Whether Spark says that it has no such format."""
    return (
        re.search(r"DATA_SOURCE_NOT_(FOUND|ENABLED)|Failed to find (the )?data source", str(error))
        is not None
    )


def connector_missing(who: str) -> str:
    """The message for a stream or query that needs the connector."""
    return (
        f"{who} needs Spark's Kafka connector, which does not come with Spark. Start Spark with its jars in "
        f"spark.jars: {', '.join(PACKAGES)}. docs/kafka.md says how to get them"
    )

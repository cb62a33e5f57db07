"""A Kafka topic as a sink, by name: Spark's connector writes to it."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.plan.logical import Connector


def kafka(topic: str, servers: str, options: Mapping[str, str] | None = None) -> Connector:
    """A sink that sends results to a topic, each with a delivery id in its headers.

    Parameters
    ----------
    servers
        Brokers, as in `kafka.bootstrap.servers`.
    options
        Further options of Spark's Kafka writer, such as `kafka.security.protocol`.

    Examples
    --------
    >>> kafka("underpaid", "127.0.0.1:9092").path
    'underpaid'
    """
    return Connector("kafka", topic, (("kafka.bootstrap.servers", servers), *dict(options or {}).items()))

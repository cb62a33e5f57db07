"""Which topics the streams of a session read, and how far: from Spark's plans and its log of offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from anabranch.spark.checkpoint import SPARK_CHECKPOINT
from anabranch.spark.kafka.kafka_sink import SERVERS

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition, the number of its next message."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A stream that reads Kafka, with the options of its reader in lower case."""

    stream: str
    options: Mapping[str, str]

    @property
    def servers(self) -> str:
        return self.options[SERVERS]

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that are named; a pattern names none."""
        if "assign" in self.options:
            return tuple(json.loads(self.options["assign"]))
        return tuple(t.strip() for t in self.options.get("subscribe", "").split(",") if t.strip())

    def reads(self, topic: str) -> bool:
        pattern = self.options.get("subscribepattern")
        return topic in self.topics or (pattern is not None and re.fullmatch(pattern, topic) is not None)


def kafka_sources(frames: Mapping[str, DataFrame]) -> Iterator[KafkaSource]:
    """Find the readers of Kafka under the streams."""
    for stream, frame in frames.items():
        for options in _reader_options(frame):
            if SERVERS in options:
                yield KafkaSource(stream, options)


def positions(checkpoint: Path, batch: int) -> Offsets:
    """How far a batch has read the topics of all its sources; of one read twice, how far the slower is."""
    try:
        lines = (checkpoint / SPARK_CHECKPOINT / "offsets" / str(batch)).read_text().splitlines()[2:]
    except OSError:
        return {}
    read: dict[str, dict[int, int]] = {}
    for topic, partitions in _topics_in(lines):
        known = read.setdefault(topic, {})
        for partition, offset in partitions.items():
            number = int(partition)
            known[number] = min(offset, known.get(number, offset))
    return read


def lag_of(source: KafkaSource, read: Offsets, latest: Offsets) -> dict[str, dict[str, int]]:
    """By topic and partition, how many messages a stream has not read yet.

    >>> source = KafkaSource("orders", {"subscribe": "orders"})
    >>> lag_of(source, {"orders": {0: 40, 1: 50}}, {"orders": {0: 100, 1: 50}})
    {'orders': {'0': 60, '1': 0}}
    """
    return {
        topic: {
            str(p): max(latest[topic][p] - at, 0) for p, at in sorted(parts.items()) if p in latest[topic]
        }
        for topic, parts in read.items()
        if source.reads(topic) and topic in latest
    }


def _topics_in(lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Topics in a log of offsets: a line per source, after its name where sources have names.

    Sources of other formats have lines of their own, which are not of this shape.
    """
    for line in lines:
        try:
            offsets: Any = json.loads(line[line.index("{") :])
        except ValueError:  # no offset yet
            continue
        for topic, partitions in offsets.items():
            if isinstance(partitions, dict) and all(p.isdecimal() for p in partitions):
                yield topic, partitions


def _reader_options(frame: DataFrame) -> Iterator[dict[str, str]]:
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            options = leaf.extraOptions().asCaseSensitiveMap()
            yield {str(name).lower(): str(value) for name, value in options.items()}

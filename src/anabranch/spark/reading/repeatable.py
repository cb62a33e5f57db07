"""Whether the sources of a run can be read again after Spark has told them that a batch is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.errors import ConfigError
from anabranch.spark.kafka.connector import is_kafka
from anabranch.spark.reading.sources import FILES


def check_repeatable(frames: Mapping[str, DataFrame]) -> None:
    """Refuse sources that may forget a batch that Spark has handed over and nobody has committed yet."""
    for stream, frame in frames.items():
        for kind, cleans in _sources(frame):
            if cleans:
                why = "removes the files of a batch that Spark takes for done (cleanSource)"
            elif not is_kafka(kind) and kind not in FILES:
                why = f"is a {kind} source, which may forget a batch that Spark takes for done"
            else:
                continue
            raise ConfigError(
                f"plan_ahead = 'true': stream {stream!r} {why}, and Spark does so before the batch is "
                "committed. It goes with files that stay, and with Kafka: leave it off"
            )


def _sources(frame: DataFrame) -> Iterator[tuple[str, bool]]:
    """Format of each source of a stream, and whether it removes what has been read."""
    plan: Any = frame._jdf.queryExecution()
    leaves = plan.analyzed().collectLeaves()
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        match leaf.getClass().getSimpleName():
            case "StreamingRelation":
                source = leaf.dataSource()
                yield source.className().lower(), _cleans(source.options())
            case "StreamingRelationV2":
                yield leaf.sourceName().lower(), False


def _cleans(options: Any) -> bool:
    pairs = (pair for pair in _each(options.iterator()) if pair._1().lower() == "cleansource")
    return any(pair._2().lower() != "off" for pair in pairs)


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()

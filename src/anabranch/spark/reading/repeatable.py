"""Whether Spark may take the batches of a run for done while they run (`plan_ahead`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.errors import ConfigError
from anabranch.spark.kafka.connector import is_kafka
from anabranch.spark.reading.sources import FILES

_BY_ROW = {
    *("Project", "Filter", "Generate", "SubqueryAlias", "Union", "Repartition", "RepartitionByExpression"),
    *("MapElements", "MapPartitions", "MapInArrow", "MapInPandas"),
    *("TypedFilter", "DeserializeToObject", "SerializeFromObject"),
}
"""Steps that go from row to row: Spark keeps no state of them, and asks nothing of them after a batch."""


def check_repeatable(frames: Mapping[str, DataFrame]) -> None:
    """Refuse streams that need to know when a batch has really run."""
    for stream, frame in frames.items():
        plan: Any = frame._jdf.queryExecution()
        for node in _nodes(plan.analyzed()):
            if (why := _why_not(node)) is not None:
                raise ConfigError(
                    f"plan_ahead = 'true': stream {stream!r} {why}. Spark would take a batch for done before "
                    "it has run: leave plan_ahead off"
                )


def _why_not(node: Any) -> str | None:
    kind = node.getClass().getSimpleName()
    if kind == "StreamingRelation" and _cleans(node.dataSource().options()):
        return "removes files that have been read (cleanSource)"
    if kind in ("StreamingRelation", "StreamingRelationV2"):
        source = (node.dataSource().className() if kind == "StreamingRelation" else node.sourceName()).lower()
        return None if source in FILES or is_kafka(source) else f"is a {source} source, which may forget rows"
    return None if kind in _BY_ROW else f"has a step in Spark that does more than rows one by one ({kind})"


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _cleans(options: Any) -> bool:
    pairs = options.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        if pair._1().lower() == "cleansource" and pair._2().lower() != "off":
            return True
    return False

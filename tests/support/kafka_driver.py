"""Programs of the Kafka tests, each a process with a Spark of its own, so that it can be killed.

    python -m tests.support.kafka_driver produce SERVERS JARS SCRATCH MESSAGES
    python -m tests.support.kafka_driver run     SERVERS JARS SCRATCH MESSAGES_PER_BATCH
    python -m tests.support.kafka_driver consume SERVERS JARS SCRATCH PARQUET

`run` joins the topics `orders` and `payments` into the topic `underpaid`, until it has read what was there
when it began. It may be told to die, like `crash_driver`. Progress and events are printed as JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.adapt.events import Event
from anabranch.engine.listener import Listener
from anabranch.engine.progress import Progress
from anabranch.engine.sinks.kafka_topic import kafka
from anabranch.spark.session import Session
from anabranch.spark.spark_session import spark_session
from tests.support.crash_driver import die_at, note_batches

BEGIN_US = 1_700_000_000_000_000
STEP_US = 1_000
DELAY_US = 200_000
"""Payments come this much after their orders."""
LATENESS = "60 seconds"
SELECT = (
    "SELECT o.id AS key, o.id AS id, o.amount AS amount, p.paid AS paid "
    "FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 10 SECONDS] AS p "
    "WHERE o.id = p.order_id AND p.paid < o.amount"
)
TOPICS = {
    "orders": ("id", "amount", "id * 31 % 997", 0),
    "payments": ("order_id", "paid", "id * 17 % 991", DELAY_US),
}
"""By topic: names of key and number, the number's expression, and the delay of its times."""


def produce(spark: SparkSession, servers: str, messages: int) -> None:
    for topic, (key, name, number, delay) in TOPICS.items():
        rows = spark.range(0, messages, 1, 1).select(
            F.col("id").cast("string").alias("key"),
            F.to_json(
                F.struct(
                    F.col("id").alias(key),
                    F.expr(number).alias(name),
                    (F.col("id") * STEP_US + BEGIN_US + delay).alias("ts_us"),
                )
            ).alias("value"),
        )
        rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def stream_of(spark: SparkSession, servers: str, topic: str, per_batch: int) -> DataFrame:
    key, name, _, _ = TOPICS[topic]
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(per_batch),
    }
    messages = spark.readStream.format("kafka").options(**options).load()
    schema = f"{key} BIGINT, {name} BIGINT, ts_us BIGINT"
    return messages.select(F.from_json(F.col("value").cast("string"), schema).alias("m")).select("m.*")


class Told(Listener):
    """Prints what a run tells."""

    def on_progress(self, progress: Progress) -> None:
        lag = {name: stream.to_json().get("lag") for name, stream in progress.streams.items()}
        refused = sum(s.refused + s.rejected for s in progress.streams.values())
        told = {"batch": progress.batch, "lag": lag, "refused": refused, "rows": progress.input_rows}
        print(json.dumps(told), flush=True)

    def on_event(self, event: Event) -> None:
        print(f"event {event}", flush=True)


def run(spark: SparkSession, servers: str, scratch: Path, per_batch: int) -> None:
    session = Session(spark, scratch / "checkpoint", sites=4)
    for topic in TOPICS:
        session.stream(topic, stream_of(spark, servers, topic, per_batch), time="ts_us", lateness=LATENESS)
    session.query("underpaid", SELECT, sink=kafka("underpaid", servers))
    session.start(availableNow=True, listeners=[Told()]).awaitTermination()
    print("done", flush=True)


def consume(spark: SparkSession, servers: str, target: str) -> None:
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "underpaid",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    messages = spark.read.format("kafka").options(**options).load()
    row = F.from_json(F.col("value").cast("string"), "id BIGINT, amount BIGINT, paid BIGINT")
    delivery = F.expr("filter(headers, h -> h.key = 'delivery_id')[0].value").cast("string")
    messages.select(
        row.alias("m"), delivery.alias("delivery_id"), F.col("key").cast("string").alias("key"), "partition"
    ).select("m.*", "delivery_id", "key", "partition").write.parquet(target)


def main(arguments: list[str]) -> None:
    what, servers, jars, scratch, last = arguments
    if crash := os.environ.get("ANABRANCH_CRASH_AT"):
        step, _, batch = crash.partition("@")
        die_at(step, int(batch), group=True)
    note_batches()
    conf = {
        "spark.jars": ",".join(str(jar) for jar in sorted((Path(jars) / "connector").glob("*.jar"))),
        "spark.local.dir": f"{scratch}/local",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    spark = spark_session("local[2]", conf)
    programs: dict[str, Any] = {
        "produce": lambda: produce(spark, servers, int(last)),
        "run": lambda: run(spark, servers, Path(scratch), int(last)),
        "consume": lambda: consume(spark, servers, last),
    }
    programs[what]()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

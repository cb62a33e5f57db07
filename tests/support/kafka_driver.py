"""Programs of the Kafka tests, each a process with a Spark of its own, so that it can be killed.

    python -m tests.support.kafka_driver produce SERVERS JARS SCRATCH MESSAGES
    python -m tests.support.kafka_driver run     SERVERS JARS SCRATCH MESSAGES_PER_BATCH
    python -m tests.support.kafka_driver consume SERVERS JARS SCRATCH PARQUET

`run` runs a flow file that joins the topics `orders` (JSON) and `payments` (Avro, with one message that is
none) into the topic `underpaid`, and into one that two queries share, until it has read what was there when
it began. It may be told to die, like `crash_driver`. Progress and events are printed as JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from anabranch.adapt.events import Event
from anabranch.engine.listener import Listener
from anabranch.engine.progress import Progress
from anabranch.plan.logical import Column
from anabranch.spark.reading.payload import avro_schema
from anabranch.spark.session import Session
from anabranch.spark.start.spark_session import spark_session
from tests.support.crash_driver import die_at, note_batches

PARTS = ("connector", "avro")
"""Folders of jars."""
BEGIN_US = 1_700_000_000_000_000
STEP_US = 1_000
DELAY_US = 200_000
"""Payments come this much after their orders."""
FLOW = """
CREATE STREAM orders FROM kafka 'orders' OPTIONS ({options}, startingOffsets = 'earliest', {bound}) AS
  SELECT from_json(CAST(value AS STRING), 'id BIGINT, amount BIGINT, ts TIMESTAMP').*
  TIME ts LATENESS 60 SECONDS;

CREATE STREAM payments (order_id BIGINT, paid BIGINT, ts TIMESTAMP)
  FROM kafka 'payments' OPTIONS ({options}, startingOffsets = 'earliest', {bound}) FORMAT avro
  TIME ts LATENESS 60 SECONDS;

CREATE QUERY underpaid INTO kafka 'underpaid' OPTIONS ({options}) AS
  SELECT o.id AS key, o.id AS id, o.amount AS amount, p.paid AS paid
  FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 10 SECONDS] AS p
  WHERE o.id = p.order_id AND p.paid < o.amount;

CREATE QUERY little INTO kafka 'alerts' OPTIONS ({options}) AS
  SELECT o.id AS key, o.id AS id, o.amount AS amount, p.paid AS paid
  FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 10 SECONDS] AS p
  WHERE o.id = p.order_id AND o.amount < 50;

CREATE QUERY much INTO kafka 'alerts' OPTIONS ({options}) AS
  SELECT o.id AS key, o.id AS id, o.amount AS amount, p.paid AS paid
  FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 10 SECONDS] AS p
  WHERE o.id = p.order_id AND o.amount > 900;
"""
RIGHT = {"underpaid": "paid < amount", "little": "amount < 50", "much": "amount > 900"}
"""What results of each query satisfy."""
MALFORMED = b"\xff\xff"
TOPICS = {
    "orders": ("id", "amount", "id * 31 % 997", 0),
    "payments": ("order_id", "paid", "id * 17 % 991", DELAY_US),
}
"""By topic: names of key and number, the number's expression, and the delay of its times."""
PAID = [Column("order_id", "bigint"), Column("paid", "bigint"), Column("ts", "timestamp")]
AVRO = json.dumps(avro_schema(PAID))


def produce(spark: SparkSession, servers: str, messages: int) -> None:
    for topic, (key, name, number, delay) in TOPICS.items():
        row = F.struct(
            F.col("id").alias(key),
            F.expr(number).alias(name),
            F.timestamp_micros(F.col("id") * STEP_US + BEGIN_US + delay).alias("ts"),
        )
        value = F.to_json(row) if topic == "orders" else to_avro(row, AVRO)
        rows = spark.range(0, messages, 1, 1).select(
            F.col("id").cast("string").alias("key"), value.alias("value")
        )
        if topic == "payments":
            rows = rows.union(rows.limit(1).select("key", F.lit(MALFORMED).alias("value")))
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", servers)
        # A machine that is busy must not be taken for a broker that is dead.
        writer.option("kafka.delivery.timeout.ms", "600000").option("topic", topic).save()


class Told(Listener):
    """Prints what a run tells."""

    def on_progress(self, progress: Progress) -> None:
        lag = {name: stream.to_json().get("lag") for name, stream in progress.streams.items()}
        refused = sum(s.refused for s in progress.streams.values())
        told = {"batch": progress.batch, "lag": lag, "refused": refused, "rows": progress.input_rows}
        print(json.dumps(told), flush=True)

    def on_event(self, event: Event) -> None:
        print(f"event {event}", flush=True)


def run(spark: SparkSession, servers: str, scratch: Path, per_batch: int) -> None:
    flow = scratch / "flow.sql"
    options, bound = f"kafka.bootstrap.servers = '{servers}'", f"maxOffsetsPerTrigger = {per_batch}"
    flow.write_text(FLOW.format(options=options, bound=bound))
    session = Session(spark, scratch / "checkpoint", sites=4)
    session.load(flow)
    session.start(availableNow=True, listeners=[Told()]).awaitTermination()
    print("done", flush=True)


def consume(spark: SparkSession, servers: str, target: str) -> None:
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "underpaid,alerts",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    messages = spark.read.format("kafka").options(**options).load()
    row = F.from_json(F.col("value").cast("string"), "query STRING, id BIGINT, amount BIGINT, paid BIGINT")
    delivery = F.expr("filter(headers, h -> h.key = 'delivery_id')[0].value").cast("string")
    messages.select(
        row.alias("m"), delivery.alias("delivery_id"), F.col("key").cast("string").alias("key"), "topic"
    ).select(
        F.coalesce("m.query", "topic").alias("query"), "m.id", "m.amount", "m.paid", "delivery_id", "key"
    ).write.parquet(target)


def main(arguments: list[str]) -> None:
    what, servers, jars, scratch, last = arguments
    if crash := os.environ.get("ANABRANCH_CRASH_AT"):
        step, _, batch = crash.partition("@")
        die_at(step, int(batch), group=True)
    note_batches()
    conf = {
        "spark.jars": ",".join(
            str(jar) for part in PARTS for jar in sorted((Path(jars) / part).glob("*.jar"))
        ),
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

"""The query of flow.sql from Python: `python make_data.py && python underpaid.py`."""

from pathlib import Path

import anabranch as ab


def main() -> None:
    here = Path.cwd()
    spark = ab.spark_session()
    files = spark.readStream.option("maxFilesPerTrigger", 1)
    orders = files.schema("id BIGINT, customer BIGINT, amount DOUBLE, ts TIMESTAMP").parquet(
        f"{here}/data/orders"
    )
    payments = files.schema("order_id BIGINT, paid DOUBLE, ts TIMESTAMP").parquet(f"{here}/data/payments")

    session = ab.Session(spark, checkpoint="checkpoint-python")
    session.stream("orders", orders, time="ts", lateness="5 seconds")
    session.stream("payments", payments, time="ts", lateness="5 seconds")
    session.query(
        "underpaid",
        """SELECT o.id, o.customer, o.amount, p.paid
           FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 10 MINUTES] AS p
           WHERE o.id = p.order_id AND p.paid < o.amount""",
        sink=ab.parquet(here / "out/underpaid-python"),
    )
    session.explain("underpaid")
    run = session.start(availableNow=True)
    run.awaitTermination()
    print(f"batches: {run.lastProgress['batchId'] + 1}")
    print(f"underpaid orders: {spark.read.parquet(f'{here}/out/underpaid-python').count():,}")


if __name__ == "__main__":
    main()

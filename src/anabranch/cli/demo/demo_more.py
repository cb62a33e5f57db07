"""The demo's scene of joins that Spark's streams do not have, and of many queries at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli.demo.auction_flow import create_stream
from anabranch.cli.demo.demo_check import checked_rows
from anabranch.cli.demo.section import Sections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.workloads.uniform import Workload

SITES, BATCHES, ALERTS = 8, 4, 50
_TOLD = {
    "sold_by": "p.id = a.seller AND a.id = b.auction: no key is common to all three. "
    "Rows find their way from join to join",
    "close_calls": "abs(a.reserve - b.price) < 0.05: no equality at all. "
    "Slices of time are spread over all sites",
    "alert": "many filters of the same bids: one scan, one Spark job",
}
_JOINS = """\
CREATE QUERY sold_by INTO parquet '{out}/sold_by' AS
  SELECT p.name, a.item, b.price
  FROM persons [RANGE 4 SECONDS] AS p, auctions [RANGE 4 SECONDS] AS a, bids [RANGE 1 SECOND] AS b
  WHERE p.id = a.seller AND a.id = b.auction;
CREATE QUERY close_calls INTO parquet '{out}/close_calls' AS
  SELECT a.id, b.bidder, b.price
  FROM auctions [RANGE 1 SECOND] AS a, bids [RANGE 1 SECOND] AS b
  WHERE abs(a.reserve - b.price) < 0.05;
"""
_ALERT = """\
CREATE QUERY alert_{n} INTO parquet '{out}/alert_{n}' AS
  SELECT auction, bidder, price FROM bids WHERE price > {price};
"""


def show_more(sections: Sections, spark: SparkSession, folder: Path, *, bids: int) -> None:
    """Run joins without a common key, without any key, and many filters, in one session, and check them."""
    from anabranch.cli.flow_file import read_flow
    from anabranch.spark.session import Session
    from anabranch.workloads.uniform import auction_streams

    root = folder / "more"
    queries = 2 + ALERTS
    sections.begin("More of it", f"{queries} queries in one session, on {SITES} sites, over a small auction:")
    work = auction_streams(root / "in", batches=BATCHES, bids_per_batch=bids)
    path = root / "flow.sql"
    path.write_text(_flow_text(work, root / "out"), encoding="utf-8")
    flow = read_flow(path)
    with sections.doing(f"Running {queries} queries"):
        session = Session(spark, root / "checkpoint", sites=SITES)
        session.load(flow)
        session.start(availableNow=True).awaitTermination()
    rows = dict(checked_rows(flow, work, root / "out"))
    for name, what in _TOLD.items():
        found = sum(count for query, count in rows.items() if query.startswith(name))
        sections.say(f"{found:>9,} rows  {what}")
    sections.say(f"          All {queries}: [green]exactly those of DuckDB[/]. The queries are in {path}")


def _flow_text(work: Workload, out: Path) -> str:
    alerts = (_ALERT.format(n=n, price=10 * (n + 1), out=out) for n in range(ALERTS))
    return "\n".join([*(create_stream(s, work) for s in work.streams), _JOINS.format(out=out), *alerts])

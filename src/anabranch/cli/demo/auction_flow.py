"""The flow file of the demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.workloads.uniform import StreamFiles, Workload

AUCTION_WINDOW = "10 SECONDS"
BID_WINDOW = "1 SECOND"
THREE_WAY = "sellers_at_work"
TWO_WAY = "above_reserve"

_QUERIES = """\
-- Three streams on one key: sellers, what they sell, what is bid for it.
CREATE QUERY {three_way} INTO parquet '{out}/{three_way}' AS
  SELECT p.name, p.city, a.item, b.price
  FROM persons [RANGE {auction_window}] AS p, auctions [RANGE {auction_window}] AS a,
       bids [RANGE {bid_window}] AS b
  WHERE p.id = a.seller AND a.seller = b.seller AND a.id = b.auction;

-- Two of the same streams on another key, with a condition across them.
CREATE QUERY {two_way} INTO parquet '{out}/{two_way}' AS
  SELECT a.id, a.item, a.reserve, b.bidder, b.price
  FROM auctions [RANGE {auction_window}] AS a, bids [RANGE {bid_window}] AS b
  WHERE a.id = b.auction AND b.price > a.reserve;
"""


def auction_flow(workload: Workload, out: Path) -> str:
    """Two queries over the three streams of an auction house."""
    queries = _QUERIES.format(
        three_way=THREE_WAY, two_way=TWO_WAY, out=out, auction_window=AUCTION_WINDOW, bid_window=BID_WINDOW
    )
    return "\n".join([*(create_stream(s, workload) for s in workload.streams), queries])


def create_stream(stream: StreamFiles, workload: Workload) -> str:
    """The statement that declares a stream of a workload, a file per batch."""
    return (
        f"CREATE STREAM {stream.name} ({stream.ddl})\n"
        f"  FROM parquet '{stream.path}' OPTIONS (maxFilesPerTrigger = 1)\n"
        f"  TIME ts LATENESS {workload.disorder_us // 1000} MILLISECONDS;\n"
    )

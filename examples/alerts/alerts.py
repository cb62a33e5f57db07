"""A thousand alert rules over an auction, added and dropped while it runs.

    python examples/alerts/alerts.py --rules 1000

Every user of an auction house has a rule: tell me of bids above a price, in my category, that come soon after
the auction was opened. Each rule is a continuous query of its own. One session answers all of them: one join
runs, and its results are split among the rules. All alerts go to one table, whose column `query` says whose
alert it is. Rules come and go without anybody else noticing.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import anabranch as ab

CATEGORIES = 50
AUCTIONS = "id BIGINT, category INT, seller BIGINT, ts TIMESTAMP"
BIDS = "auction BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP"
START_US = 1_767_225_600_000_000
ALL_BIDS = (
    "SELECT o.id AS auction, b.bidder, b.price FROM auctions [RANGE 10 MINUTES] o, bids [RANGE 10 MINUTES] b "
    "WHERE o.id = b.auction AND b.price > 990"
)
"""The rule of the house: the first query, and the longest window that users may ask for."""


def rule(user: int) -> str:
    """The alert that a user wants."""
    draw = random.Random(user)
    minutes, price = draw.randint(1, 10), draw.choice((500, 750, 900, 950))
    more = draw.choice(("", " AND b.price < 980", " AND o.seller < 250", " AND b.bidder <> o.seller"))
    return (
        f"SELECT o.id AS auction, b.bidder, b.price FROM auctions [RANGE {minutes} MINUTES] o, bids [NOW] b "
        f"WHERE o.id = b.auction AND o.category = {draw.randrange(CATEGORIES)} AND b.price > {price}{more}"
    )


def minute_of(number: int, *, auctions: int = 200, bids: int = 2_000) -> dict[str, pa.Table]:
    """What happens in one minute of the auction house."""
    draw = random.Random(f"minute {number}")
    times = [START_US + number * 60_000_000 + draw.randrange(60_000_000) for _ in range(auctions + bids)]
    stamps = pa.array(sorted(times), pa.timestamp("us", tz="UTC"))
    first = number * auctions
    opened = {
        "id": pa.array(range(first, first + auctions), pa.int64()),
        "category": pa.array([draw.randrange(CATEGORIES) for _ in range(auctions)], pa.int32()),
        "seller": pa.array([draw.randrange(500) for _ in range(auctions)], pa.int64()),
        "ts": stamps.slice(0, auctions),
    }
    oldest = max(0, first - 9 * auctions)
    made = {
        "auction": pa.array([draw.randrange(oldest, first + auctions) for _ in range(bids)], pa.int64()),
        "bidder": pa.array([draw.randrange(500) for _ in range(bids)], pa.int64()),
        "price": pa.array([draw.uniform(1, 1000) for _ in range(bids)], pa.float64()),
        "ts": stamps.slice(auctions),
    }
    return {"auctions": pa.table(opened), "bids": pa.table(made)}


def main() -> None:
    parser = argparse.ArgumentParser(description="A thousand alert rules over an auction.")
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--minutes", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-alerts-") as folder:
        run_alerts(Path(folder), rules=options.rules, minutes=options.minutes)


def run_alerts(folder: Path, *, rules: int, minutes: int) -> Counter[str]:
    """Run the auction house for some minutes; returns how many alerts each rule has had."""
    spark = ab.spark_session("alerts")
    session = ab.Session(spark, folder / "checkpoint", sharing="open")
    for name, columns in (("auctions", AUCTIONS), ("bids", BIDS)):
        (folder / name).mkdir()
        frame = spark.readStream.schema(columns).parquet(str(folder / name))
        session.stream(name, frame, time="ts", lateness="1 minute")
    alerts = ab.shared(ab.parquet(folder / "alerts"))
    session.query("house", ALL_BIDS, alerts)
    run = session.start()
    for minute in range(minutes):
        for user in range(rules):
            if minute == user % 3:  # some come at once, some a little later …
                run.add(f"user{user}", rule(user), alerts)
            elif minute == 4 and user % 10 == 0:  # … and every tenth has seen enough
                run.drop(f"user{user}")
        for name, rows in minute_of(minute).items():
            hidden = folder / name / f".{minute}.parquet"
            pq.write_table(rows, hidden)
            hidden.rename(folder / name / f"{minute:03d}.parquet")
        run.processAllAvailable()
        restarts = sum(event.kind == "ingest_restarted" for event in run.events)
        rows = pq.read_table(folder / "alerts", columns=["query"]).num_rows
        print(f"minute {minute}: {rows:,} alerts so far, restarts of ingest: {restarts}")
    run.stop()
    found = Counter(pq.read_table(folder / "alerts").column("query").to_pylist())
    print("most alerts:", ", ".join(f"{name} {count}" for name, count in found.most_common(5)))
    return found


if __name__ == "__main__":
    main()

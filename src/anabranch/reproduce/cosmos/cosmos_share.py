"""COSMOS, table 3.1 and beyond: auctions, and many generated queries over them, with and without groups.

The batch loop, state and sinks are the engine's; rows are handed over without Spark. Auctions close up to six
hours after they open, at any time alike. Every query has a sink of its own.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from anabranch.queries.containment import contained
from anabranch.queries.grouping.benefit import Benefit, StreamStatistics, benefit, result_rate
from anabranch.queries.grouping.groups import group_of
from anabranch.queries.shape import Shape
from anabranch.reproduce.report.result import Check, Result, Table, at_least, between
from anabranch.testing.oracle_compare import assert_same_rows

HOUR_US = 3_600_000_000
START_US = 1_700_000_000_000_000
LONGEST_H = 6
OPENED = 2_000
"""Auctions an hour."""
WARM = 5
"""Batches before the one whose results are counted: all windows are full by then."""
_OPEN = (
    Column("item", "bigint"),
    Column("seller", "bigint"),
    Column("start_price", "double"),
    Column("ts", "timestamp"),
)
_CLOSED = (Column("item", "bigint"), Column("buyer", "bigint"), Column("ts", "timestamp"))
STREAMS: Mapping[str, Stream] = {
    "open_auction": Stream("open_auction", _OPEN, "ts"),
    "closed_auction": Stream("closed_auction", _CLOSED, "ts"),
}
_FROM = "FROM open_auction [RANGE {} HOURS] o, closed_auction [NOW] c WHERE o.item = c.item"
Q3 = "SELECT o.item, o.seller, o.start_price, o.ts " + _FROM.format(3)
Q4 = "SELECT o.item, o.ts AS opened, c.buyer, c.ts AS closed " + _FROM.format(5)
Q5 = "SELECT o.item, o.seller, o.start_price, o.ts AS opened, c.buyer, c.ts AS closed " + _FROM.format(5)


@dataclass(frozen=True, slots=True)
class Shared:
    """One run: CPU seconds of the batch that counts, results of each query, rows of representatives."""

    seconds: float
    results: Mapping[str, pa.Table]
    counted: int
    representative: int


def cosmos_share(out: Path, *, quick: bool = False) -> Result:
    """Q5 answers Q3 and Q4; many queries cost less as a group, by about what was estimated."""
    count = 60 if quick else 1000
    queries = [bind_query(name, text, STREAMS) for name, text in _texts(count).items()]
    together, apart = (_run(queries, sharing) for sharing in ("always", "off"))
    for query in queries:
        assert_same_rows(together.results[query.name], apart.results[query.name], what=query.text)
    estimated = _estimate(queries)
    measured = Benefit(together.counted / 3600, together.representative / 3600)
    rows = (
        ("alone", apart.seconds, apart.counted, "–"),
        ("as a group", together.seconds, together.counted, together.representative),
    )
    checks = (
        *_table_31(),
        Check("every member's results are the same with and without a group", True, f"{count + 2} queries"),
        at_least("results of members ÷ of the representative", together.counted / together.representative, 2),
        at_least("CPU time alone ÷ as a group", apart.seconds / together.seconds, 1.5),
        between(
            "benefit estimated ÷ measured", estimated.rows_per_second / measured.rows_per_second, 0.8, 1.2
        ),
    )
    columns = ("queries", "CPU seconds of a batch", "results of members", "results of the representative")
    return Result("cosmos-share", f"{count + 2} queries over auctions", Table(columns, rows), checks)


def _table_31() -> tuple[Check, ...]:
    """The paper's example: the representative of Q3 and Q4 is Q5."""
    q3, q4, q5 = (bind_query(n, t, STREAMS) for n, t in (("q3", Q3), ("q4", Q4), ("q5", Q5)))
    found = group_of([Shape(q3, STREAMS), Shape(q4, STREAMS)])
    both = contained(q3, q5, STREAMS) and contained(q4, q5, STREAMS)
    same = contained(found, q5, STREAMS) and contained(q5, found, STREAMS)
    return (
        Check("Q5 has the results of Q3 and of Q4", both, "theorem 3.1"),
        Check("the representative of Q3 and Q4 is Q5", same, "each has the results of the other"),
    )


def _texts(count: int) -> dict[str, str]:
    """Queries of table 3.1, and others with windows, filters and columns of their own."""
    rng = random.Random(31)
    texts = {"q3": Q3, "q4": Q4}
    for number in range(count):
        low = rng.uniform(0, 900)
        where = [f"o.start_price BETWEEN {low:.2f} AND {low + rng.uniform(20, 100):.2f}"]
        where += [f"c.buyer < {rng.randrange(100, 1000)}"] if rng.random() < 0.5 else []
        columns = ", ".join(["o.item", *rng.sample(("o.seller", "o.start_price", "c.buyer"), 2)])
        texts[f"g{number}"] = f"SELECT {columns} {_FROM.format(rng.randint(1, 5))} AND {' AND '.join(where)}"
    return texts


def _run(queries: Sequence[Query], sharing: str) -> Shared:
    with tempfile.TemporaryDirectory() as folder:
        run = LocalRun(
            Path(folder),
            tuple(STREAMS.values()),
            queries,
            settings=Settings(sites=1, slots=1, sharing=sharing),
        )
        for hour in range(WARM):
            run.batch(_batch(hour))
        before = {q.name: run.results(q.name).num_rows for q in queries}
        began = time.process_time()
        summary = run.batch(_batch(WARM))
        seconds = time.process_time() - began
        results = {q.name: run.results(q.name) for q in queries}
        run.close()
    counted = sum(table.num_rows - before[name] for name, table in results.items())
    return Shared(seconds, results, counted, sum(s.results for r in summary.reports for s in r.sites))


def _batch(hour: int) -> dict[str, pa.Table]:
    """Auctions that open in an hour, and those that close in it; all that have opened are made anew."""
    opened = [_opened(h) for h in range(max(hour - LONGEST_H, 0), hour + 1)]
    closes = pa.concat_tables(opened)
    start, end = START_US + hour * HOUR_US, START_US + (hour + 1) * HOUR_US
    at = closes.column("closes").to_numpy()
    closing = closes.filter(pa.array((at >= start) & (at < end)))
    order = np.argsort(closing.column("closes").to_numpy())
    closing = closing.take(pa.array(order))
    closed = pa.table(
        {
            "item": closing.column("item"),
            "buyer": closing.column("buyer"),
            "ts": _times(closing.column("closes").to_numpy()),
        }
    )
    rows = opened[-1]
    fresh = {name: rows.column(name) for name in ("item", "seller", "start_price")}
    return {
        "open_auction": pa.table({**fresh, "ts": _times(rows.column("opens").to_numpy())}),
        "closed_auction": closed,
    }


def _opened(hour: int) -> pa.Table:
    rng = np.random.default_rng(hour)
    opens = START_US + hour * HOUR_US + np.sort(rng.integers(0, HOUR_US, OPENED))
    return pa.table(
        {
            "item": hour * OPENED + np.arange(OPENED),
            "seller": rng.integers(0, 500, OPENED),
            "buyer": rng.integers(0, 1000, OPENED),
            "start_price": rng.random(OPENED) * 1000,
            "opens": opens,
            "closes": opens + rng.integers(0, LONGEST_H * HOUR_US, OPENED),
        }
    )


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _estimate(queries: Sequence[Query]) -> Benefit:
    """The benefit by a sample of rows, rates of the streams, and one count of what a join gives."""
    sample = _batch(WARM)
    rates = {name: rows.num_rows / 3600 for name, rows in sample.items()}
    share = StreamStatistics(rates, 1.0, sample)
    shapes = [Shape(query, STREAMS) for query in queries]
    widest = Shape(bind_query("q5", Q5, STREAMS), STREAMS)
    seen = _run([widest.query], "off").counted / 3600
    known = StreamStatistics(rates, seen / result_rate(widest, share), sample)
    return benefit(shapes, group_of(shapes), known)

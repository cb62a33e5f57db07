"""A thousand rules over two streams: offers and trades of items, and what each rule wants to hear of.

Rule i is a window join on the key with a filter, windows and columns of its own. Filters of four rules meet
on each item, so that a pair of rows has a few rules, whatever their number.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.workloads.stream_files import Clock, Workload, utc_times, write_stream

RULES_PER_ITEM = 4
PRICES = 1000.0
_COLUMNS = (
    ("a.id", "b.id"),
    ("b.id", "a.id"),
    ("a.item", "b.id"),
    ("a.id", "b.item"),
    ("a.id + b.id", "a.id"),
)


def rule_streams(
    root: Path,
    *,
    rules: int,
    batches: int,
    rows_per_batch: int,
    interval_us: int = 1_000_000,
    seed: int = 0,
    names: str = "ab",
) -> Workload:
    """Write streams `a` and `b` of `id, k, item, price, ts`; `rules` is how many rules there will be."""
    clock = Clock(batches, rows_per_batch, interval_us, 0, seed)
    make = partial(_rows, clock, items=items_of(rules))
    made = (
        write_stream(root, name, batches, partial(make, stream=stream)) for stream, name in enumerate(names)
    )
    return Workload(tuple(made), batches, interval_us, 0)


def items_of(rules: int) -> int:
    """Items that so many rules are about."""
    return max(1, rules // RULES_PER_ITEM)


def _rows(clock: Clock, batch: int, *, items: int, stream: int) -> pa.Table:
    rng, _, ts = clock.rows_of(batch, stream=stream)
    size = len(ts)
    return pa.table(
        {
            "id": clock.first_id(batch) + np.arange(size),
            "k": rng.integers(0, max(1, size), size),
            "item": rng.integers(0, items, size),
            "price": rng.random(size) * PRICES,
            "ts": utc_times(ts),
        }
    )


def rule_values(number: int, *, rules: int, window_us: int) -> dict[str, int | float | str]:
    """A rule: windows between a half and all of the longest, half of the prices of an item, two columns."""
    quarter = number // items_of(rules) % RULES_PER_ITEM
    x, y = _COLUMNS[number % len(_COLUMNS)]
    low = quarter * PRICES / 8
    return {
        "query": f"q{number}",
        "item": number % items_of(rules),
        "low": low,
        "high": low + PRICES / 2,
        "a_us": window_us // 2 + (number * 7919) % (window_us // 2 + 1),
        "b_us": window_us // 2 + (number * 104_729) % (window_us // 2 + 1),
        "x": x,
        "y": y,
    }


def rule(number: int, *, rules: int, window_us: int) -> str:
    """The text of a rule."""
    r = rule_values(number, rules=rules, window_us=window_us)
    return (
        f"SELECT {r['x']} AS x, {r['y']} AS y "
        f"FROM a [RANGE {r['a_us']} MICROSECONDS] a, b [RANGE {r['b_us']} MICROSECONDS] b "
        f"WHERE a.k = b.k AND a.item = {r['item']} AND a.price >= {r['low']} AND a.price < {r['high']}"
    )


def column_choices() -> tuple[tuple[str, str], ...]:
    """What rules select."""
    return _COLUMNS


def plain_join(*, window_us: int) -> str:
    """One query with the results of all pairs inside a window."""
    return (
        f"SELECT a.id AS x, b.id AS y FROM a [RANGE {window_us} MICROSECONDS] a, "
        f"b [RANGE {window_us} MICROSECONDS] b WHERE a.k = b.k"
    )


def subscription(number: int, *, rules: int) -> str:
    """A filter on one stream: an item, and a tenth of its prices."""
    item, tenth = number % items_of(rules), number // items_of(rules) % 10
    low = tenth * PRICES / 10
    return (
        f"SELECT id AS x, item AS y FROM a WHERE item = {item} AND price >= {low} "
        f"AND price < {low + PRICES / 10}"
    )

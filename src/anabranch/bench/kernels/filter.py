"""The group filter: rows a second of one core against many predicates, beside DuckDB's rows ⋈ rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.plan.predicate import Between, Conjunction, Constraint, OneOf, Predicate

ITEMS = 10_000
PRICES = 1000.0
TYPES = {"item": pa.int64(), "price": pa.float64()}
FEW, MANY = 1_000, 100_000
WANTED = {FEW: 20e6, MANY: 1e6}
"""Rows a second of one core that are the least to reach, by number of predicates."""
PEER_PAIRS = 2_000_000_000
"""Rows times predicates up to which DuckDB is measured, too: without an equality it compares them all."""


@dataclass(frozen=True, slots=True)
class FilterBench:
    """One kind of predicate, one number of them. Seconds are CPU time of the one thread there is."""

    kind: str
    predicates: int
    rows: int
    pairs: int
    seconds: float
    build_seconds: float
    """To index all of them at once."""
    add_seconds: float
    """To add one more and match a few rows."""
    duckdb_seconds: float | None
    """To join as many rows with a table of the same predicates, on one thread."""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def ratio(self) -> float | None:
        """How many times as fast as DuckDB."""
        return None if self.duckdb_seconds is None else self.duckdb_seconds / self.seconds

    @property
    def ns_per_row(self) -> float:
        return self.seconds / self.rows * 1e9


@dataclass(frozen=True, slots=True)
class _Rules:
    """Predicates as arrays: an item or any (-1), and a range of prices."""

    item: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def predicates(self) -> Iterator[tuple[int, Predicate]]:
        each = zip(self.item.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        for number, (item, low, high) in enumerate(each):
            constraints: tuple[Constraint, ...] = () if item < 0 else (OneOf("item", (item,)),)
            if high > low:
                constraints += (Between("price", low, high),)
            yield number, Predicate((Conjunction(constraints),))

    def table(self) -> pa.Table:
        return pa.table(
            {"rule": np.arange(len(self.item)), "of": self.item, "low": self.low, "high": self.high}
        )


def _equalities(rng: np.random.Generator, count: int) -> _Rules:
    nothing = np.zeros(count)
    return _Rules(rng.integers(0, ITEMS, count), nothing, nothing)


def _both(rng: np.random.Generator, count: int) -> _Rules:
    low = rng.random(count) * PRICES
    return _Rules(rng.integers(0, ITEMS, count), low, low + PRICES / 10)


def _ranges(rng: np.random.Generator, count: int) -> _Rules:
    low = rng.random(count) * PRICES
    return _Rules(np.full(count, -1), low, low + PRICES / count)


KINDS: dict[str, Callable[[np.random.Generator, int], _Rules]] = {
    "item = ?": _equalities,
    "item = ? AND price BETWEEN": _both,
    "price BETWEEN": _ranges,
}
_SQL = {
    "item = ?": "item = of",
    "item = ? AND price BETWEEN": "item = of AND price BETWEEN low AND high",
    "price BETWEEN": "price BETWEEN low AND high",
}


def run_filter(
    *, rows: int = 2_000_000, rounds: int = 5, counts: tuple[int, ...] = (FEW, MANY)
) -> Iterator[FilterBench]:
    """Match rows with every kind and number of predicates; the shortest of some rounds counts."""
    rng = np.random.default_rng(7)
    table = pa.table({"item": rng.integers(0, ITEMS, rows), "price": rng.random(rows) * PRICES})
    for count in counts:
        for kind, make in KINDS.items():
            yield _measured(kind, make(rng, count), table, rounds)


def _measured(kind: str, rules: _Rules, rows: pa.Table, rounds: int) -> FilterBench:
    filters = GroupFilter(TYPES)
    few = rows.slice(0, 1000)
    began = time.process_time()
    filters.add_all(rules.predicates())
    list(filters.matches(few))
    built = time.process_time()
    pairs, best = 0, float("inf")
    for _ in range(rounds):
        started = time.process_time()
        pairs = sum(map(len, filters.matches(rows)))
        best = min(best, time.process_time() - started)
    started = time.process_time()
    filters.add(len(rules.item), Predicate((Conjunction((OneOf("item", (1,)),)),)))
    list(filters.matches(few))
    added = time.process_time()
    peer = _by_duckdb(kind, rules, rows, pairs)
    return FilterBench(
        kind, len(rules.item), rows.num_rows, pairs, best, built - began, added - started, peer
    )


def _by_duckdb(kind: str, rules: _Rules, rows: pa.Table, pairs: int) -> float | None:
    if "item" not in kind and rows.num_rows * len(rules.item) > PEER_PAIRS:
        return None
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.register("r", rows)
        connection.register("p", rules.table())
        connection.execute("CREATE TABLE rows AS FROM r")
        connection.execute("CREATE TABLE rules AS FROM p")
        started = time.process_time()
        found = connection.execute(
            f"SELECT count(*), sum(rule) FROM rows JOIN rules ON {_SQL[kind]}"
        ).fetchone()
        seconds = time.process_time() - started
    assert found is not None
    if found[0] != pairs:
        raise AssertionError(f"{kind}: the group filter finds {pairs} pairs, DuckDB {found[0]}")
    return seconds

"""The 4-way join of CAPE, section 6: Poisson streams, chosen selectivities.

    a ─x─ b ─y─ c ─z─ d        σ_AB = 1 / (values of x), and so on

Table 2 is scaled twice, so that a 2026 machine has something to measure and the ratios stay. *Rows*: every
rate times `rows`, every σ divided by it: a row finds as many partners as in the paper, λ W σ, and there are
`rows` times as many of all kinds. *Time*: a second of the paper is `second` of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from anabranch.workloads.stream_files import utc_times

OLD_PLAN = "(((a b) c) d)"
"""Figure 4, left."""
NEW_PLAN = "(((b c) d) a)"
"""Figure 4, right: states bc and bcd are its own (equation 8)."""
NAMES = ("a", "b", "c", "d")
KEYS: Mapping[str, tuple[str, ...]] = {"a": ("x",), "b": ("x", "y"), "c": ("y", "z"), "d": ("z",)}
START_US = 1_700_000_000_000_000

Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Load:
    """Rates and selectivities.

    Attributes
    ----------
    rates
        Rows per second of event time, by stream.
    values
        Distinct values of each key, by its name.
    sharded
        Values of a key that all four streams share, by which sites divide the work; 0 for none.
    """

    rates: Mapping[str, float]
    values: Mapping[str, int]
    sharded: int = 0

    def faster(self, factor: float) -> Load:
        """The same selectivities at other rates."""
        return replace(self, rates={name: rate * factor for name, rate in self.rates.items()})


@dataclass(frozen=True, slots=True)
class Table2:
    """A column of table 2: mean inter-arrival times in ms, and reduction factors."""

    inter_arrival_ms: Mapping[str, float]
    sigma: Mapping[str, float]
    """By key: x is σ_AB, y is σ_BC, z is σ_CD."""

    def load(self, *, rows: float, second: float) -> Load:
        """Scaled: `rows` times as many, a second of the paper being `second` of ours.

        >>> load = SET_1.load(rows=100, second=0.1)
        >>> load.rates["b"], load.values
        (10000.0, {'x': 1000, 'y': 2000, 'z': 5000})
        """
        return Load(
            {name: rows / second * 1000 / ms for name, ms in self.inter_arrival_ms.items()},
            {key: round(rows / sigma) for key, sigma in self.sigma.items()},
        )

    def with_b_every(self, ms: float) -> Table2:
        return replace(self, inter_arrival_ms={**self.inter_arrival_ms, "b": ms})


def _column(ms: tuple[float, float, float, float], sigma: tuple[float, float, float]) -> Table2:
    return Table2(dict(zip(NAMES, ms, strict=True)), dict(zip("xyz", sigma, strict=True)))


SET_1 = _column((100, 100, 100, 100), (0.1, 0.05, 0.02))
SET_2 = _column((50, 50, 50, 50), (0.1, 0.05, 0.02))
"""I_B varies."""
SET_3 = _column((100, 12, 12, 12), (0.1, 0.1, 0.1))
LOW = _column((100, 100, 100, 100), (0.1, 0.02, 0.02))
HIGH = _column((50, 50, 50, 50), (0.2, 0.05, 0.05))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Poisson arrivals in batches of equal event time.

    Attributes
    ----------
    load
        By the batch from which on it holds.
    disorder_us
        How far rows may be behind, beside their place in the stream.
    """

    load: Mapping[int, Load]
    interval_us: int
    seed: int = 0
    disorder_us: int = 0

    def batches(self, count: int) -> Iterator[Tables]:
        rng = np.random.default_rng(self.seed)
        first = dict.fromkeys(NAMES, 0)
        for number in range(count):
            load = self.load[max(since for since in self.load if since <= number)]
            tables = {}
            for name in NAMES:
                size = int(rng.poisson(load.rates[name] * self.interval_us / 1e6))
                tables[name] = self._table(rng, name, number, first[name], size, load)
                first[name] += size
            yield tables

    def _table(
        self, rng: np.random.Generator, name: str, number: int, first: int, size: int, load: Load
    ) -> pa.Table:
        times = np.sort(rng.integers(0, self.interval_us, size)) + number * self.interval_us
        if self.disorder_us:
            times = np.maximum(times - rng.integers(0, self.disorder_us, size), 0)
        columns = {"id": first + np.arange(size, dtype=np.int64)}
        if load.sharded:
            columns["k"] = rng.integers(0, load.sharded, size)
        columns |= {key: rng.integers(0, load.values[key], size) for key in KEYS[name]}
        return pa.table({**columns, "ts": utc_times(START_US + times)})


def cape_streams(*, lateness_us: int = 0, sharded: bool = False) -> tuple[Stream, ...]:
    return tuple(
        Stream(
            name,
            (
                *(Column(c, "bigint") for c in ("id", *(("k",) if sharded else ()), *KEYS[name])),
                Column("ts", "timestamp"),
            ),
            "ts",
            lateness_us,
        )
        for name in NAMES
    )


def cape_text(*, window_us: int, order: str = "abcd", sharded: bool = False) -> str:
    """The query; its first plan is left-deep in the given order.

    >>> print(cape_text(window_us=5, order="bca"))
    SELECT a.id AS a_id, b.id AS b_id, c.id AS c_id
    FROM b [RANGE 5 MICROSECONDS], c [RANGE 5 MICROSECONDS], a [RANGE 5 MICROSECONDS]
    WHERE a.x = b.x AND b.y = c.y
    """
    known = set(order)
    outputs = ", ".join(f"{name}.id AS {name}_id" for name in sorted(order))
    sources = ", ".join(f"{name} [RANGE {window_us} MICROSECONDS]" for name in order)
    chain = (("a", "b", "x"), ("b", "c", "y"), ("c", "d", "z"))
    pairs = [f"{one}.{key} = {other}.{key}" for one, other, key in chain if {one, other} <= known]
    if sharded:
        pairs += [f"{order[0]}.k = {other}.k" for other in order[1:]]
    return f"SELECT {outputs}\nFROM {sources}\nWHERE {' AND '.join(pairs)}"


def cape_query(streams: tuple[Stream, ...], text: str) -> Query:
    return bind_query("q", text, {s.name: s for s in streams})

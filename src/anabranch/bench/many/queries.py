"""Many standing queries in one session: what the thousandth costs, beside what users do without it.

All of it on Spark, over the same files: one query, many rules in one session, Spark's own join with a table
of rules, separate queries of Spark, and DuckDB over everything at once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import SparkSession
from rich.table import Table

from anabranch.bench.joins.anabranch_join import add_streams
from anabranch.bench.joins.tree_cpu import tree_cpu_s
from anabranch.bench.many.coming import Added, run_coming
from anabranch.bench.many.marginal import Marginal, run_marginal
from anabranch.bench.peers import batch_times
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.errors import AnabranchError
from anabranch.spark.run import Run
from anabranch.spark.session import Session
from anabranch.workloads.rules import plain_join, rule, rule_streams, subscription
from anabranch.workloads.stream_files import Workload

WINDOW_US = 2_000_000
WARM_UP = 4
"""Batches that do not count: workers start, the window fills."""
POLL_S = 0.05
SAMPLE = 20
"""Members whose results are compared with DuckDB's."""


class WrongResults(AnabranchError):
    """A member has other results than DuckDB."""


class CpuClock:
    """CPU time of batches after the warm-up."""

    def __init__(self) -> None:
        self._first: tuple[int, tuple[float, float]] | None = None
        self._last = (0, (0.0, 0.0))

    def look(self, batches: int) -> None:
        """See how many batches there have been."""
        if batches >= WARM_UP and batches > self._last[0]:
            self._last = batches, tree_cpu_s()
            self._first = self._first or self._last

    @property
    def batch_ms(self) -> tuple[float, float]:
        """Of one batch, on average: in all, and of the JVM."""
        if self._first is None or self._last[0] == self._first[0]:
            return 0.0, 0.0
        batches = self._last[0] - self._first[0]
        whole, jvm = (b - a for a, b in zip(self._first[1], self._last[1], strict=True))
        return 1000 * whole / batches, 1000 * jvm / batches


@dataclass(frozen=True, slots=True)
class Measured:
    """One way to answer the rules. Times are of batches after the warm-up."""

    what: str
    queries: int
    results: int
    """A batch."""
    batch_ms: float
    """Median, from trigger to commit."""
    cpu_ms: float
    """A batch, of all processes: what others do on the machine changes it little."""
    jvm_ms: float
    """Of it, the JVM's."""
    rows_per_second: float
    start_s: float = 0.0
    """From the first query being declared until Spark's query runs."""

    def times(self, other: Measured) -> float:
        """How many times as much CPU time a batch takes as with another."""
        return self.cpu_ms / max(other.cpu_ms, 1e-9)


@dataclass(slots=True)
class QueriesBench:
    """All measures, of a run with so many rows a stream and batch. It is filled in as they come."""

    rows: int
    one: tuple[Measured, ...] = ()
    """By turn; the one with the least CPU time counts."""
    many: tuple[Measured, ...] = ()
    peers: tuple[Measured, ...] = ()
    added: Added | None = None
    marginal: Marginal | None = None
    failed: tuple[str, ...] = ()
    """Parts that could not be measured, and why."""

    @property
    def best(self) -> Measured:
        """One query with as many results."""
        return min(self.one, key=lambda m: m.cpu_ms)

    @property
    def ratio(self) -> float:
        """CPU time with the first number of rules, of one query with as many results."""
        first = [m for m in self.many if m.queries == self.many[0].queries]
        return min(first, key=lambda m: m.cpu_ms).times(self.best)


def run_queries(
    spark: SparkSession,
    scratch: Path,
    *,
    counts: tuple[int, ...] = (1000,),
    subscriptions: int = 0,
    subscription_rows: int = 0,
    rows: int = 50_000,
    batches: int = 12,
    peers: bool = True,
    coming: bool = True,
    turns: int = 2,
    tell: Callable[[str], None] = lambda what: None,
) -> QueriesBench:
    """Measure rules in one session, and peers. A part that fails is told of, and the others are measured."""
    first, result = counts[0], QueriesBench(rows)
    tell("warming up")  # the JVM compiles for a while, and whoever comes first would pay for it
    bench = _Bench(spark, scratch, first, rows, batches, tell)
    one_us = bench.warmed_up()
    for turn in range(turns):
        tell(f"one query, turn {turn + 1}")
        result.one += (bench.one(one_us, turn),)
        tell(f"{first:,} rules, turn {turn + 1}")
        result.many += (bench.rules(first, f"rules{first}-{turn}"),)
    parts: list[tuple[str, Callable[[], None]]] = [
        (f"{count:,} rules", partial(bench.larger, result, count)) for count in counts[1:]
    ]
    if subscriptions:
        what = f"{subscriptions:,} subscriptions"
        parts.append((what, partial(bench.subscribed, result, subscriptions, subscription_rows or rows)))
    parts += [("queries that come", partial(bench.coming, result))] if coming else []
    parts.append(("one more rule", partial(bench.one_more, result, one_us)))
    parts += [("peers", partial(bench.beside, result))] if peers else []
    for what, measure in parts:
        tell(what)
        try:
            measure()
        except Exception as error:
            result.failed += (f"{what}: {error}",)
    return result


class _Bench:
    """Measures one part after the other."""

    def __init__(
        self,
        spark: SparkSession,
        scratch: Path,
        first: int,
        rows: int,
        batches: int,
        tell: Callable[[str], None],
    ) -> None:
        self._spark, self._scratch, self._tell = spark, scratch, tell
        self._first, self._rows, self._batches = first, rows, batches
        self._work = self._written(first)

    def _written(self, rules: int) -> Workload:
        where = self._scratch / f"in{rules}"
        return rule_streams(where, rules=rules, batches=self._batches, rows_per_batch=self._rows)

    def warmed_up(self) -> int:
        """Run each kind once; the window with which one query has as many results as all rules have."""
        self.one(WINDOW_US, -1)
        warm = self.rules(self._first, "warm-rules")
        return round(WINDOW_US * warm.results / _pairs_in_steady_batches(self._work))

    def one(self, window_us: int, turn: int) -> Measured:
        text = plain_join(window_us=window_us)
        where = self._scratch / f"one{turn}"
        return _session(self._spark, self._work, where, "one query, as many results", [text])

    def rules(self, count: int, folder: str) -> Measured:
        work = self._work if count == self._first else self._written(count)
        texts = [rule(i, rules=count, window_us=WINDOW_US) for i in range(count)]
        where = self._scratch / folder
        found = _session(self._spark, work, where, f"{count:,} rules in one session", texts)
        _verify(where / "out", work, count, oracle)
        return found

    def larger(self, result: QueriesBench, count: int) -> None:
        result.many += (self.rules(count, f"rules{count}"),)

    def subscribed(self, result: QueriesBench, count: int, rows: int) -> None:
        result.many += (_subscribed(self._spark, self._scratch / "subscribed", count, rows),)

    def coming(self, result: QueriesBench) -> None:
        sizes = {"rules": self._first, "rows": self._rows, "batches": self._batches}
        result.added = run_coming(self._spark, self._scratch / "added", **sizes, window_us=WINDOW_US)

    def one_more(self, result: QueriesBench, one_us: int) -> None:
        result.marginal = run_marginal(
            self._scratch / "marginal",
            few=self._first,
            more=2 * self._first,
            window_us=WINDOW_US,
            one_us=one_us,
            rows=self._rows,
            batches=self._batches,
        )

    def beside(self, result: QueriesBench) -> None:
        for peer in _peers(self._spark, self._work, self._scratch, self._first, self._tell):
            result.peers += (peer,)


def _session(spark: SparkSession, workload: Workload, scratch: Path, what: str, texts: list[str]) -> Measured:
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    began = time.perf_counter()
    session = Session(spark, scratch / "checkpoint", sharing="open" if len(texts) > 1 else "off")
    add_streams(session, spark, workload)
    sink = ParquetSink(scratch / "out")
    for number, text in enumerate(texts):
        session.query(f"q{number}", text, shared(sink) if len(texts) > 1 else sink)
    run = session.start(availableNow=True)
    start_s = time.perf_counter() - began
    clock = CpuClock()
    while not run.awaitTermination(POLL_S):
        clock.look(len(run.recentProgress))
    return _measured(what, len(texts), run, start_s=start_s, cpu_ms=clock.batch_ms)


def _subscribed(spark: SparkSession, scratch: Path, count: int, rows: int) -> Measured:
    """Filters on one stream, of so many rows a batch."""
    workload = rule_streams(scratch / "in", rules=count, batches=WARM_UP + 6, rows_per_batch=rows, names="a")
    texts = [subscription(i, rules=count) for i in range(count)]
    found = _session(
        spark, workload, scratch, f"{count:,} filter subscriptions, {rows:,} rows a batch", texts
    )
    _verify(scratch / "out", workload, count, lambda number, of: subscription(number, rules=of))
    return found


def _measured(what: str, queries: int, run: Run, *, start_s: float, cpu_ms: tuple[float, float]) -> Measured:
    times = [t for t in batch_times(run.streamingQuery) if t.rows][WARM_UP:]
    results = [p.output_rows for p in run.recentProgress]
    ms = statistics.median(t.milliseconds for t in times)
    per_batch = statistics.median(results[WARM_UP:])
    batch_rows = statistics.median(t.rows for t in times)
    return Measured(what, queries, round(per_batch), ms, *cpu_ms, batch_rows / ms * 1000, start_s)


def _pairs_in_steady_batches(workload: Workload) -> float:
    """Pairs inside the longest window that a batch brings, once windows are full: DuckDB counts them."""
    a, b = (f"read_parquet('{stream.path}/*.parquet')" for stream in workload.streams)
    batch = f"(greatest(epoch_us(a.ts), epoch_us(b.ts)) // {workload.interval_us})"
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT median(n) FROM (SELECT {batch} AS batch, count(*) AS n FROM {a} a JOIN {b} b "
            "ON a.k = b.k "
            f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {WINDOW_US} GROUP BY ALL ORDER BY batch "
            f"OFFSET {WARM_UP})"
        ).fetchone()
    assert found is not None
    return float(found[0])


def _verify(out: Path, workload: Workload, count: int, oracle: Callable[[int, int], str]) -> None:
    """Compare some members with DuckDB, row by row."""
    found = pads.dataset(out).to_table()
    with duckdb.connect() as connection:
        for stream in workload.streams:
            connection.execute(f"CREATE VIEW {stream.name} AS FROM read_parquet('{stream.path}/*.parquet')")
        for number in range(0, count, max(1, count // SAMPLE)):
            mine = found.filter(pc.equal(found.column("query"), f"q{number}")).select(["x", "y"])
            expected = connection.sql(oracle(number, count)).to_arrow_table()
            order = [("x", "ascending"), ("y", "ascending")]
            if mine.sort_by(order).to_pylist() != expected.cast(mine.schema).sort_by(order).to_pylist():
                raise WrongResults(
                    f"rule q{number}: {mine.num_rows:,} results, DuckDB has {expected.num_rows:,}, or others"
                )


def oracle(number: int, count: int) -> str:
    """A rule as one query over all rows."""
    text = rule(number, rules=count, window_us=WINDOW_US)
    select, _, rest = text.partition(" FROM ")
    windows, _, where = rest.partition(" WHERE ")
    own, other = (int(word) for word in windows.split() if word.isdecimal())
    newest = "greatest(epoch_us(a.ts), epoch_us(b.ts))"
    inside = f"{newest} - epoch_us(a.ts) <= {own} AND {newest} - epoch_us(b.ts) <= {other}"
    return f"{select} FROM a, b WHERE {where} AND {inside}"


def _peers(
    spark: SparkSession, workload: Workload, scratch: Path, rules: int, tell: Callable[[str], None]
) -> Iterator[Measured]:
    from anabranch.bench.many.query_peers import duckdb_rules, separate_queries, spark_rules

    tell("Spark's join with a table of rules")
    yield spark_rules(spark, workload, scratch / "spark", rules, window_us=WINDOW_US, warm_up=WARM_UP)
    for count in (1, 4, 16):
        tell(f"{count} queries of Spark")
        where = scratch / f"apart{count}"
        yield separate_queries(spark, workload, where, rules, count, window_us=WINDOW_US, warm_up=WARM_UP)
    tell("DuckDB")
    yield duckdb_rules(workload, rules, window_us=WINDOW_US)


def queries_table(result: QueriesBench) -> Table:
    """What was measured, beside one query with as many results."""
    table = Table(title=f"{result.rows:,} rows per stream and batch", title_justify="left")
    for column in (
        "",
        "queries",
        "results a batch",
        "batch, ms",
        "CPU, ms",
        "of it JVM",
        "÷ one",
        "rows/s",
        "start, s",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for m in (*result.one, *result.many, *result.peers):
        table.add_row(
            m.what,
            f"{m.queries:,}",
            f"{m.results:,}",
            f"{m.batch_ms:,.0f}",
            f"{m.cpu_ms:,.0f}",
            f"{m.jvm_ms:,.0f}",
            f"{m.times(result.best):.2f}",
            f"{m.rows_per_second:,.0f}",
            f"{m.start_s:,.1f}",
        )
    table.add_section()
    if (more := result.marginal) is not None:
        table.add_row(
            f"without Spark, CPU of a batch: one {more.one_ms:,.0f} ms, "
            f"{more.few:,} rules {more.few_ms:,.0f} ms, {more.more:,} rules {more.more_ms:,.0f} ms: "
            f"one more is {more.share:.4%} of one query"
        )
    if (a := result.added) is not None:
        table.add_row(
            f"run.add: first results {a.batches} batch(es) after the one under way, "
            f"batches of others × {a.change:.2f}"
        )
        table.add_row(f"with a restart of Spark's query: all wait {a.restart_s:.1f} s")
    return table

"""Many standing queries in one session: what the thousandth costs, beside what users do without it.

All of it on Spark, over the same files: one query, many rules in one session, Spark's own join with a table
of rules, separate queries of Spark, and DuckDB over everything at once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import SparkSession
from rich.table import Table

from anabranch.bench.joins.anabranch_join import add_streams
from anabranch.bench.joins.tree_cpu import tree_cpu_s
from anabranch.bench.peers import batch_times
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.errors import AnabranchError
from anabranch.spark.run import Run
from anabranch.spark.session import Session
from anabranch.workloads.rules import plain_join, rule, rule_streams, subscription
from anabranch.workloads.stream_files import Workload

T = TypeVar("T")
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


@dataclass(frozen=True, slots=True)
class Added:
    """Queries that come while a session runs."""

    batches: int
    """From the one under way at the request until the first with results of the one that joins a group."""
    change: float
    """Batch time after it ÷ before it: what the others noticed."""
    restart_s: float
    """Pause of all others where ingest must change."""


@dataclass(frozen=True, slots=True)
class QueriesBench:
    """All measures, of a run with so many rows a stream and batch."""

    rows: int
    one: Measured
    many: tuple[Measured, ...]
    peers: tuple[Measured, ...]
    added: Added | None

    @property
    def ratio(self) -> float:
        """CPU time with the first number of rules, of one query with as many results."""
        return self.many[0].times(self.one)

    @property
    def marginal(self) -> float:
        """What one more query adds to a batch, of what the first takes."""
        return (self.ratio - 1) / max(1, self.many[0].queries - 1)


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
    tell: Callable[[str], None] = lambda what: None,
) -> QueriesBench:
    """Measure rules in one session, and peers."""
    first = counts[0]
    workload = rule_streams(scratch / "in", rules=first, batches=batches, rows_per_batch=rows)
    many = []
    tell("warming up")  # the JVM compiles for a while, and whoever comes first would pay for it
    _session(spark, workload, scratch / "warm", "one query", [plain_join(window_us=WINDOW_US)])
    rules = [rule(i, rules=first, window_us=WINDOW_US) for i in range(first)]
    _session(spark, workload, scratch / "warm-rules", "rules", rules)
    for count in counts:
        tell(f"{count:,} rules")
        load = workload
        if count != first:
            load = rule_streams(scratch / f"in{count}", rules=count, batches=batches, rows_per_batch=rows)
        texts = [rule(i, rules=count, window_us=WINDOW_US) for i in range(count)]
        many.append(
            _session(spark, load, scratch / f"rules{count}", f"{count:,} rules in one session", texts)
        )
        _verify(scratch / f"rules{count}" / "out", load, count, oracle)
    pairs = _pairs_in_steady_batches(workload)
    tell("one query")
    # The window that gives one query as many results as all rules have together.
    window_us = round(WINDOW_US * many[0].results / pairs)
    text = plain_join(window_us=window_us)
    one = _session(spark, workload, scratch / "one", "one query, as many results", [text])
    if subscriptions:
        tell(f"{subscriptions:,} subscriptions")
        many.append(_subscribed(spark, scratch / "subscribed", subscriptions, subscription_rows or rows))
    tell("queries that come")
    added = _added(spark, scratch / "added", rules=first, rows=rows, batches=batches)
    others = tuple(_peers(spark, workload, scratch, first, tell)) if peers else ()
    return QueriesBench(rows, one, tuple(many), others, added)


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
    results = [sum(q.output_rows for q in p.queries.values()) for p in run.recentProgress]
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


def _added(spark: SparkSession, scratch: Path, *, rules: int, rows: int, batches: int) -> Added:
    """Add a query that joins a group, and one for which ingest must change, to a running session."""
    workload = rule_streams(scratch / "in", rules=rules, batches=4 * batches, rows_per_batch=rows)
    session = Session(spark, scratch / "checkpoint", sharing="open")
    add_streams(session, spark, workload)
    sink = shared(ParquetSink(scratch / "out"))
    session.query("base", plain_join(window_us=WINDOW_US), sink)
    run = session.start()
    _await_batch(run, batches // 2)
    asked = run.recentProgress[-1]["batchId"]  # the one after it is under way, at whose end queries come
    run.add("joins", rule(3, rules=rules, window_us=WINDOW_US), sink)
    heard = _await(run, lambda: _first_results(run, "joins"))
    _await_batch(run, heard + batches // 2)
    times = {p["batchId"]: p["durationMs"]["triggerExecution"] for p in run.recentProgress}
    before = statistics.median(ms for n, ms in times.items() if 2 < n <= asked)
    after = statistics.median(ms for n, ms in times.items() if n > asked + 1)
    run.add("restarts", plain_join(window_us=2 * WINDOW_US), sink)
    restarted = _await(run, lambda: next((e for e in run.events if e.kind == "ingest_restarted"), None))
    run.stop()
    return Added(heard - asked - 1, after / before, float(restarted.data["seconds"]))


def _first_results(run: Run, query: str) -> int | None:
    told = ((p.batch, p.queries[query]) for p in run.recentProgress if query in p.queries)
    return next((batch for batch, progress in told if progress.output_rows), None)


def _await_batch(run: Run, batch: int) -> None:
    _await(run, lambda: next((1 for p in run.recentProgress[-1:] if p["batchId"] >= batch), None))


def _await(run: Run, found: Callable[[], T | None], *, timeout_s: float = 120) -> T:
    end = time.monotonic() + timeout_s
    while (value := found()) is None:
        if time.monotonic() > end or not run.isActive:
            raise AnabranchError("the session did not come to what was to be measured")
        time.sleep(0.05)
    return value


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
    for m in (result.one, *result.many, *result.peers):
        table.add_row(
            m.what,
            f"{m.queries:,}",
            f"{m.results:,}",
            f"{m.batch_ms:,.0f}",
            f"{m.cpu_ms:,.0f}",
            f"{m.jvm_ms:,.0f}",
            f"{m.times(result.one):.2f}",
            f"{m.rows_per_second:,.0f}",
            f"{m.start_s:,.1f}",
        )
    table.add_section()
    table.add_row(f"one more of {result.many[0].queries:,}, of the first: {result.marginal:.3%}")
    if result.added is not None:
        a = result.added
        table.add_row(
            f"run.add: first results {a.batches} batch(es) after the one under way, "
            f"batches of others × {a.change:.2f}"
        )
        table.add_row(f"with a restart of Spark's query: all wait {a.restart_s:.1f} s")
    return table

"""cape-exact: a migration at every batch, and not a row more or less."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from anabranch.engine.settings import Settings
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.cape.cape_run import CapeRun, Change, Trace, run_cape
from anabranch.reproduce.cape.cape_spark import run_on_spark, write_arrivals
from anabranch.reproduce.cape.cape_streams import (
    NEW_PLAN,
    OLD_PLAN,
    SET_1,
    Arrivals,
    cape_query,
    cape_streams,
    cape_text,
)
from anabranch.reproduce.report.result import Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import Rows, compare_rows
from anabranch.testing.stream_model import accepted_rows, expected_rows

BUSHY = "((a b) (c d))"
MS, PT = Strategy.MOVING_STATE, Strategy.PARALLEL_TRACK
WINDOW_US, LATENESS_US, INTERVAL_US = 1_000_000, 300_000, 200_000
SHARDS = 4


def cape_exact(out: Path, *, quick: bool = False) -> Result:
    """There and back at every boundary, by either strategy and by both in turn; on one site and on three."""
    return exact("cape-exact", batches=12 if quick else 30, rows=30 if quick else 60, on_spark=not quick)


def exact(name: str, *, batches: int, rows: int, on_spark: bool) -> Result:
    told: list[tuple[str | int, ...]] = []
    for sharded in (False, True):
        what = _what(batches, rows, sharded=sharded)
        never = run_cape(what)
        assert never.table is not None
        oracle = _oracle(what)
        told.append(_row("never", what, never.table, never.table, oracle, 0))
        for strategies, plans in _ways():
            changes = _changes(batches, strategies, plans)
            trace = run_cape(replace(what, changes=changes))
            assert trace.table is not None
            told.append(
                _row(_way(strategies, plans), what, trace.table, never.table, oracle, _followed(trace))
            )
        if on_spark:
            told += _spark_rows(what, never.table, oracle)
    migrated = [row for row in told if row[1] != "never"]
    return Result(
        name,
        f"a migration at every boundary of {batches} batches, rows up to {LATENESS_US / 1e6:g} s behind",
        Table(
            (
                "ran on",
                "strategy and plans",
                "sites",
                "plan changes",
                "results",
                "≠ never migrated",
                "≠ DuckDB",
            ),
            tuple(told),
        ),
        (
            at_least("results of the least run", float(min(int(row[4]) for row in told)), 100.0),
            at_least("plan changes of the least run", float(min(int(r[3]) for r in migrated)), batches - 3.0),
            at_most("rows that differ from the never-migrated run", float(sum(int(r[5]) for r in told)), 0.0),
            at_most("rows that differ from DuckDB", float(sum(int(r[6]) for r in told)), 0.0),
        ),
    )


def _ways() -> list[tuple[tuple[Strategy, ...], tuple[str, ...]]]:
    there_and_back = (NEW_PLAN, OLD_PLAN)
    return [
        ((MS,), there_and_back),
        ((PT,), there_and_back),
        ((MS, PT, PT), there_and_back),
        ((MS, PT), (BUSHY, NEW_PLAN, OLD_PLAN)),
    ]


def _what(batches: int, rows: int, *, sharded: bool) -> CapeRun:
    load = SET_1.load(rows=float(rows), second=1.0)
    if sharded:  # the same selectivities: a pair must agree on the shard too
        load = replace(load, sharded=SHARDS, values={k: max(1, n // SHARDS) for k, n in load.values.items()})
    settings = Settings(
        sites=3 if sharded else 1, slots=2 if sharded else 1, migration="off", rebalance="off"
    )
    return CapeRun(
        Arrivals({0: load}, INTERVAL_US, disorder_us=LATENESS_US),
        WINDOW_US,
        batches,
        lateness_us=LATENESS_US,
        settings=settings,
        sharded=sharded,
        keep=True,
    )


def _changes(batches: int, strategies: tuple[Strategy, ...], plans: tuple[str, ...]) -> dict[int, Change]:
    return {n: Change(plans[n % len(plans)], strategies[n % len(strategies)]) for n in range(batches - 1)}


def _followed(trace: Trace) -> int:
    return sum(a != b for a, b in zip(trace.plans, trace.plans[1:], strict=False)) + (
        trace.plans[0][0] != OLD_PLAN
    )


def _oracle(what: CapeRun) -> pa.Table:
    streams = cape_streams(lateness_us=what.lateness_us, sharded=what.sharded)
    query = cape_query(streams, cape_text(window_us=what.window_us, sharded=what.sharded))
    models = accepted_rows(streams, list(what.arrivals.batches(what.batches)))
    tables = {name: pa.concat_tables(model.accepted) for name, model in models.items()}
    return expected_rows(query, streams, tables)


def _spark_rows(what: CapeRun, never: pa.Table, oracle: pa.Table) -> Iterable[tuple[str | int, ...]]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_arrivals(root / "data", what.arrivals, what.batches)
        for number, (strategies, plans) in enumerate(_ways()):
            trace = run_on_spark(
                root / "data",
                root / str(number),
                window_us=what.window_us,
                changes=_changes(what.batches, strategies, plans),
                lateness_us=what.lateness_us,
                sharded=what.sharded,
                sites=what.settings.sites,
            )
            followed = len({b for kind in ("track_began", "state_moved") for b in trace.batches_of(kind)})
            yield _row(_way(strategies, plans), what, trace.out, never, oracle, followed, ran_on="Spark")


def _row(
    way: str,
    what: CapeRun,
    found: Rows,
    never: pa.Table,
    oracle: pa.Table,
    changes: int,
    *,
    ran_on: str = "LocalRun",
) -> tuple[str | int, ...]:
    from_never, from_oracle = compare_rows(found, never), compare_rows(found, oracle)
    return (
        ran_on,
        way,
        what.settings.sites,
        changes,
        from_never.actual_rows,
        from_never.missing + from_never.unexpected,
        from_oracle.missing + from_oracle.unexpected,
    )


def _way(strategies: tuple[Strategy, ...], plans: tuple[str, ...]) -> str:
    return f"{', '.join(strategies)}; {', '.join(plans)}"

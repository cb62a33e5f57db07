"""Columns of arrays with a length: their distances are those that DuckDB computes on the arrays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.local_vectors import taken_apart
from anabranch.engine.settings import Settings
from anabranch.errors import QueryError
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Stream
from anabranch.plan.vectors import Vector
from tests.engine.stations import names_of
from tests.support.restless import RestlessDecider
from tests.support.restless_routing import RestlessRouting

LENGTH = 5
STREAMS = tuple(
    Stream(
        name,
        (Column("id", "bigint"), *Vector("v", kind, LENGTH).elements, Column("ts", "timestamp")),
        "ts",
    )
    for name, kind in (("a", "double"), ("b", "float"))
)
TEXT = (
    "SELECT a.id AS a, b.id AS b, a.v[4] AS last FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
    "WHERE l2_distance(a.v, b.v) < 1.5"
)
ORACLE = (
    "SELECT a.id AS a, b.id AS b, a.v[5] AS last FROM a, b WHERE list_distance(a.v, b.v::DOUBLE[]) < 1.5 "
    "AND greatest(a.ts, b.ts) - a.ts <= INTERVAL 2 SECONDS "
    "AND greatest(a.ts, b.ts) - b.ts <= INTERVAL 1 SECOND"
)


def vectors(draw: np.random.Generator, rows: int, second: int, *, bad: bool) -> pa.Table:
    """Rows with vectors, NULLs among them, and, if wanted, some that are none."""
    lists: list[list[float | None] | None] = [row.tolist() for row in draw.integers(0, 4, (rows, LENGTH)) / 2]
    lists[0] = None
    if bad:
        lists[1], lists[2], lists[3] = [1.0], [None] * LENGTH, [0.5] * (LENGTH + 1)
    times = second * 1_000_000 + np.sort(draw.integers(0, 1_000_000, rows))
    columns = {"id": pa.array(1000 * second + np.arange(rows)), "v": pa.array(lists, pa.list_(pa.float64()))}
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})


def good(rows: pa.Table) -> pa.Table:
    """The rows that are not malformed, as this test sees it."""
    lists = rows.column("v").to_pylist()
    return rows.filter(pa.array([v is None or (len(v) == LENGTH and None not in v) for v in lists]))


def check(found: pa.Table, batches: list[dict[str, pa.Table]]) -> int:
    connection = duckdb.connect()
    for name in "ab":
        connection.register(name, pa.concat_tables(good(batch[name]) for batch in batches))
    expected = connection.sql(ORACLE).to_arrow_table().to_pylist()
    assert Counter(tuple(r.values()) for r in found.to_pylist()) == Counter(
        tuple(row.values()) for row in expected
    )
    return len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_distances_of_arrays_are_those_of_duckdb_through_moves_and_restarts(
    tmp_path: Path, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    batches = [{name: vectors(draw, 40, 10 + i, bad=i % 2 == 1) for name in "ab"} for i in range(6)]
    query = bind_query("q", TEXT, names_of(STREAMS))
    settings = Settings(sites=4, slots=2)
    decider = RestlessRouting(seed, RestlessDecider(seed, waits=False))
    run = LocalRun(tmp_path, STREAMS, [query], settings=settings, decider=decider)
    for number, batch in enumerate(batches):
        if number == 3:
            run.close()
            run = LocalRun(tmp_path, STREAMS, [query], sinks=run.sinks, settings=settings, decider=decider)
        run.batch(batch)
    run.end_of_input()
    rejected = {name: stream.rejected for name, stream in run.record.progress[-1].streams.items()}
    found = run.results("q")
    run.close()
    assert check(found, batches) > 50
    assert rejected == {"a": 9, "b": 9}
    letters = pq.read_table(tmp_path / "dead_letters")
    assert set(letters.column("reason").to_pylist()) == {"malformed vector: v is not 5 numbers"}
    assert letters.num_rows == 18


def test_a_row_without_an_array_is_null_in_every_number() -> None:
    rows = pa.table({"v": pa.array([None, [1, 2, 3, 4, 5], [1]], pa.list_(pa.float64()))})
    found, reasons = taken_apart(rows, STREAMS[0])
    assert found.column("v[4]").to_pylist() == [None, 5.0, None]
    assert reasons.tolist() == ["", "", "malformed vector: v is not 5 numbers"]


FLOW = """CREATE STREAM p (id BIGINT, v DOUBLE[3], ts TIMESTAMP) FROM parquet 'p' TIME ts;
CREATE QUERY q INTO console AS {}"""


@pytest.mark.parametrize(
    ("select", "message", "column"),
    [
        ("SELECT v FROM p", "v is a vector of 3 numbers", 39),
        ("SELECT v[3] AS x FROM p", "no number of this vector", 39),
        ("SELECT * FROM p", "would name every number of the vector v", 39),
        ("SELECT l2_distance(v, array(v[0])) AS x FROM p", "vectors of 3 and 1 numbers", 39),
    ],
)
def test_what_is_no_use_of_a_vector_is_refused_with_its_place(select: str, message: str, column: int) -> None:
    with pytest.raises(QueryError, match=message) as error:
        parse_flow(FLOW.format(select))
    assert (error.value.line, error.value.column) == (2, column)


@pytest.mark.parametrize("kind", ["DOUBLE[]", "ARRAY<DOUBLE>", "DOUBLE[0]", "DOUBLE[1001]", "STRING[3]"])
def test_an_array_without_a_length_is_refused_and_told_how_to_write_it(kind: str) -> None:
    with pytest.raises(QueryError, match=r"v DOUBLE\[3\]") as error:
        parse_flow(f"CREATE STREAM p (v {kind}, ts TIMESTAMP) FROM parquet 'p' TIME ts;")
    assert (error.value.line, error.value.column) == (1, 18)


def test_a_flow_file_declares_vectors() -> None:
    flow = parse_flow(FLOW.format("SELECT l2_distance(v, v) AS d, v[1] AS y FROM p"))
    (stream,) = flow.streams
    assert [c.name for c in stream.columns] == ["id", "v[0]", "v[1]", "v[2]", "ts"]
    assert stream.prepared is not None
    assert stream.prepared.declared[1] == Column("v", "array<double>")


def test_a_select_at_ingest_makes_vectors_by_a_cast() -> None:
    source = "CREATE STREAM p (raw ARRAY<DOUBLE>, ts TIMESTAMP) FROM parquet 'p' AS SELECT ts, {} TIME ts;"
    (stream,) = parse_flow(source.format("CAST(raw AS FLOAT[2]) AS v")).streams
    assert stream.columns == (Column("ts", "timestamp"), *Vector("v", "float", 2).elements)
    with pytest.raises(QueryError, match="say how many numbers"):
        parse_flow(source.format("CAST(raw AS STRING[2]) AS v"))


def test_a_length_that_a_select_at_ingest_would_lose_is_refused() -> None:
    with pytest.raises(QueryError, match=r"CAST\(v AS DOUBLE\[3\]\) AS v") as error:
        parse_flow("CREATE STREAM p (v DOUBLE[3], ts TIMESTAMP) FROM json 'p' AS SELECT v, ts TIME ts;")
    assert (error.value.line, error.value.column) == (1, 18)

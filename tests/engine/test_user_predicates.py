"""Predicates of users: the pairs that a Python function takes, once each, and refusals with reasons."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import anabranch as ab
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.expressions import user_predicates
from anabranch.language.flow import bind_query, parse_flow
from anabranch.operators.rows.user_functions import install_functions
from anabranch.testing.stream_model import accepted_rows, scratch
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS, random_batches
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider


def near(x: pa.Array, y: pa.Array) -> pa.Array:
    """Whether two numbers differ by less than 3, of numbers that there are."""
    return pc.less(pc.abs(pc.subtract(x, y)), pa.scalar(3.0))


def both_or_none(x: pa.Array, y: pa.Array) -> pa.Array:
    """Sees NULL, and answers for it."""
    return pc.equal(pc.is_null(x), pc.is_null(y))


TEXTS = {
    "alone": "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] WHERE near(a.x, b.y)",
    "beside a key": (
        "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 3 SECONDS] "
        "WHERE a.k = b.k AND (both_or_none(a.y, b.y) OR near(a.x, b.x))"
    ),
    "beside a band": (
        "SELECT a.id AS a, c.id AS c FROM a [RANGE 2 SECONDS], c [RANGE 1 SECONDS] "
        "WHERE abs(a.x - c.x) <= 2 AND NOT near(a.y, c.y)"
    ),
    "of three": (
        "SELECT a.id AS a, b.id AS b, d.id AS d FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS], "
        "d [RANGE 2 SECONDS] WHERE a.k = b.k AND near(b.x, d.x)"
    ),
}


@pytest.fixture(autouse=True)
def predicates() -> None:
    ab.predicate("near", near)
    ab.predicate("Both_Or_None", both_or_none)


def truth(name: str, rows: dict[str, dict[str, object]]) -> bool | None:
    """The conditions by hand, on one combination of rows; None is not true."""

    def close(x: object, y: object) -> bool | None:
        if x is None or y is None:
            return None
        return abs(x - y) < 3  # type: ignore[operator]

    a, b, c, d = (rows.get(alias, {}) for alias in "abcd")
    match name:
        case "alone":
            return close(a["x"], b["y"])
        case "beside a key":
            same = a["k"] is not None and a["k"] == b["k"]
            return same and ((a["y"] is None) == (b["y"] is None) or close(a["x"], b["x"]))
        case "beside a band":
            x, y = a["x"], c["x"]
            banded = x is not None and y is not None and abs(x - y) <= 2  # type: ignore[operator]
            return banded and close(a["y"], c["y"]) is False
        case _:
            return a["k"] is not None and a["k"] == b["k"] and close(b["x"], d["x"])


def expected(name: str, models: dict[str, list[dict[str, object]]], windows: dict[str, int]) -> pa.Table:
    """All combinations, by nested loops."""
    found: list[dict[str, object]] = []

    def extend(chosen: dict[str, dict[str, object]], left: list[str]) -> None:
        if left:
            for row in models[left[0]]:
                extend({**chosen, left[0]: row}, left[1:])
            return
        newest = max(row["us"] for row in chosen.values())  # type: ignore[type-var]
        inside = all(newest - row["us"] <= windows[alias] for alias, row in chosen.items())  # type: ignore[operator]
        if inside and truth(name, chosen) is True:
            found.append({alias: row["id"] for alias, row in chosen.items()})

    extend({}, list(windows))
    return pa.table({alias: pa.array([row[alias] for row in found], pa.int64()) for alias in windows})


@pytest.mark.parametrize("name", list(TEXTS))
def test_a_predicate_takes_the_pairs_that_loops_take(name: str) -> None:
    for seed in range(2):
        draw = random.Random(seed)
        query = bind_query("q", TEXTS[name], names_of(STREAMS))
        batches = [
            {stream: numbers_only(table) for stream, table in batch.items()}
            for batch in random_batches(draw, 4, most=7)
        ]
        settings = Settings(sites=draw.choice((1, 5)), slots=draw.choice((1, 2)))
        with scratch() as root:
            decider = RestlessDecider(seed)
            run = LocalRun(root, STREAMS, [query], settings=settings, decider=decider)
            for batch in batches:
                run.batch(batch)
            run.drain()
            run.end_of_input()
            results = run.results("q")
            run.close()
        models = {
            stream: rows_of(model.rows_for(query))
            for stream, model in accepted_rows(STREAMS, batches).items()
        }
        windows = {ref.alias: ref.window_us for ref in query.refs}
        check_rows(results, expected(name, models, windows), what=f"{name}, seed {seed}")


def numbers_only(table: pa.Table) -> pa.Table:
    """Without NaN, which Python compares otherwise than SQL."""
    columns = {}
    for name in table.column_names:
        values = table.column(name).to_pylist()
        plain = [None if isinstance(v, float) and math.isnan(v) else v for v in values]
        columns[name] = pa.array(plain, table.schema.field(name).type)
    return pa.table(columns)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    times = table.column("ts").cast(pa.int64()).to_pylist()
    return [{**row, "us": us} for row, us in zip(table.to_pylist(), times, strict=True)]


def bind(condition: str) -> None:
    text = f"SELECT a.id FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] WHERE {condition}"
    bind_query("q", text, names_of(STREAMS))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("a.k = b.k AND near(a.x, a.y)", "over two streams"),
        ("a.k = b.k AND near(a.x, NULL)", "over two streams"),
        ("near(a.x, b.x, NULL)", "type of NULL"),
        ("unheard_of(a.x, b.x)", "not supported"),
    ],
)
def test_what_is_no_predicate_of_two_streams_is_refused(condition: str, reason: str) -> None:
    with pytest.raises(ab.QueryError, match=reason):
        bind(condition)


def test_an_unknown_predicate_is_told_how_to_register_it() -> None:
    with pytest.raises(ab.QueryError, match=r"ab\.predicate"):
        bind("zygomorphic(a.x, b.x)")


def test_flow_files_have_no_predicates() -> None:
    text = """
    CREATE STREAM a (x DOUBLE, ts TIMESTAMP) FROM parquet 'in' TIME ts;
    CREATE QUERY q INTO console AS
      SELECT l.x FROM a [RANGE 1 SECONDS] AS l, a [RANGE 1 SECONDS] AS r WHERE near(l.x, r.x);
    """
    with pytest.raises(ab.QueryError, match="flow files have none"):
        parse_flow(text)


@pytest.mark.parametrize("name", ["abs", "count", "l2_distance", "two words", "1st"])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(ab.ConfigError, match="cannot be called"):
        ab.predicate(name, near)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, y: pc.subtract(x, y), "gave double, and not an Arrow array of booleans"),
        (lambda x, y: pc.less(x, y).slice(1), "values for"),
        (lambda x, y: None, "gave NoneType"),
    ],
)
def test_a_function_that_gives_something_else_is_found_out(function: object, reason: str) -> None:
    ab.predicate("odd", function)  # type: ignore[arg-type]
    query = bind_query("q", TEXTS["alone"].replace("near", "odd"), names_of(STREAMS))
    times = pa.array(np.array([1, 2, 3])).cast(pa.timestamp("us"))
    numbers = pa.array([1.0, 2.0, 3.0])
    table = pa.table({"id": [1, 2, 3], "k": [1, 1, 1], "x": numbers, "y": numbers, "ts": times})
    with scratch() as root:
        run = LocalRun(root, STREAMS, [query])
        run.batch({"a": table, "b": table})
        assert re.search(reason, run.loop.failures["q"]), "the query ends alone"
        run.close()


def test_a_function_registered_anew_takes_the_place_of_the_old_one() -> None:
    bind("near(a.x, b.x)")
    (before,) = [p for p in user_predicates.bound_predicates() if p.name == "near"]
    ab.predicate("near", both_or_none)
    (after,) = [p for p in user_predicates.bound_predicates() if p.name == "near"]
    assert before.sql_name == after.sql_name
    assert before.payload != after.payload
    install_functions([before])
    install_functions([after])

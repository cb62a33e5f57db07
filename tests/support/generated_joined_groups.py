"""Hypothesis strategies for sessions with aggregates and DISTINCT above joins.

They are lived through by `generated_aggregates.check_aggregates`. Streams are short: a join multiplies rows,
and the oracle compares every result with every other.
"""

from __future__ import annotations

from hypothesis import strategies as st

from anabranch.plan.logical import Stream
from tests.support.generated import streams
from tests.support.generated_aggregates import AggregateCase, aggregate_texts, sessions_of
from tests.support.generated_queries import From, any_from

_SUMMED = "ilnwf"


@st.composite
def joined_group_texts(draw: st.DrawFn, declared: tuple[Stream, ...]) -> str:
    """A grouped SELECT, or SELECT DISTINCT, over a join of two or three references."""
    refs, rest = draw(any_from(declared, numbers=(2, 2, 3)))
    columns = [c for r in refs for c in r.of("ilfdnwsxeub")]
    keys = draw(joined_keys(refs, rest))
    if draw(st.integers(0, 2)) == 0:
        distinct = ", ".join(f"{k} AS k{i}" for i, k in enumerate(keys or columns[:1]))
        return f"SELECT DISTINCT {distinct} FROM {rest}"
    chosen = draw(st.lists(st.sampled_from(joined_aggregates(refs)), min_size=1, max_size=4))
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys) if draw(st.booleans()) or i == 0]
    outputs += [f"{a} AS a{i}" for i, a in enumerate(["SUM(a.id)", *chosen])]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING MAX(b.id) > 4"]))
    return f"SELECT {', '.join(outputs)} FROM {rest}{group}{having}"


@st.composite
def joined_keys(draw: st.DrawFn, refs: list[From], rest: str) -> list[str]:
    """Group keys of a join."""
    columns = [c for r in refs for c in r.of("ilfdnwsxeub")]
    wanted = st.lists(st.sampled_from([*columns, *_key_expressions(refs)]), max_size=2, unique=True)
    return list(dict.fromkeys([*draw(_join_keys(rest)), *draw(wanted)]))


@st.composite
def _join_keys(draw: st.DrawFn, text: str) -> list[str]:
    """Mostly the side of an equality: then the groups of a join can be partitioned."""
    equalities = [part for part in text.replace(" WHERE ", " AND ").split(" AND ") if " = " in part]
    plain = [e for e in equalities if "(" not in e and "NOT " not in e]
    sides = [[side] for e in plain for side in e.split(" = ")]
    return draw(st.sampled_from([*sides, []]))


def _key_expressions(refs: list[From]) -> list[str]:
    found = ["a.id < b.id", "a.id > 9", *(f"{x} IS NULL" for x in refs[-1].of("ilfdnwsxeub"))]
    return found + [f"CAST({x} AS INT)" for r in refs for x in r.of("l")]


def joined_aggregates(refs: list[From]) -> list[str]:
    """Aggregates over the results of a join."""
    summed = [x for r in refs for x in [*r.of(_SUMMED), f"{r.alias}.id"]]
    found = ["COUNT(*)", "COUNT(*) * 2 + 1", "SUM(a.id + b.id)", "MIN(a.id * b.id)", "COUNT(7)", "7"]
    found += ["AVG(a.id - b.id)", "MAX(CASE WHEN a.id < b.id THEN a.ts ELSE b.ts END)"]
    found += [f"{f}({x})" for x in summed for f in ("SUM", "AVG")]
    found += [f"{f}({r.alias}.ts)" for r in refs for f in ("MIN", "MAX")]
    return found + [f"{f}({x})" for r in refs for x in r.of("ilfdnwsxeub") for f in ("COUNT", "MIN", "MAX")]


@st.composite
def joined_group_cases(draw: st.DrawFn) -> AggregateCase:
    """A whole session, with an aggregate over a single stream now and then."""
    declared = draw(streams())
    texts = draw(st.lists(joined_group_texts(declared), min_size=1, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        texts.append(draw(st.sampled_from(declared).flatmap(aggregate_texts)))
    return draw(sessions_of(declared, texts, sizes=(12, 8, 5, 1)))

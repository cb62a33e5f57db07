"""Hypothesis strategies for sessions with tumbling, hopping and session windows.

They are lived through by `generated_aggregates.check_aggregates`, over single streams and above joins.
Percentiles are quartiles, which lie between two values without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from anabranch.plan.logical import Stream
from tests.support.generated import POOLS, streams
from tests.support.generated_aggregates import AggregateCase, aggregate_texts, aggregates_of, sessions_of
from tests.support.generated_joined_groups import joined_aggregates, joined_keys
from tests.support.generated_queries import any_from

_SIZES = (
    "'4 microseconds'",
    "'1 microsecond'",
    "'10 microseconds'",
    "'4 microseconds', '2 microseconds'",
    "'5 microseconds', '2 microseconds'",
    "'12 microseconds', '3 microseconds', '2 microseconds'",
    "INTERVAL 6 MICROSECONDS, INTERVAL 5 MICROSECONDS",
)
_GAPS = ("'1 microsecond'", "'2 microseconds'", "'5 microseconds'", "INTERVAL 30 MICROSECONDS")


@st.composite
def windows(draw: st.DrawFn, time: str) -> tuple[str, str]:
    """A window for GROUP BY, and its name."""
    if draw(st.integers(0, 2)) == 0:
        return f"session_window({time}, {draw(st.sampled_from(_GAPS))})", "session_window"
    return f"window({time}, {draw(st.sampled_from(_SIZES))})", "window"


@st.composite
def _grouped(draw: st.DrawFn, keys: Sequence[str], known: Sequence[str], time: str) -> tuple[str, str]:
    """SELECT and GROUP BY of a query; `known` are aggregates to choose from."""
    window, name = draw(windows(time))
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
    bounds = [f"{name}.start", f"{name}.end AS e", f"window_time({name}) AS last", "COUNT(*) AS n"]
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys) if draw(st.booleans()) or i == 0]
    outputs += [bound for bound in bounds if draw(st.booleans())]
    outputs += [f"{a} AS a{i}" for i, a in enumerate(chosen)]
    written = []
    for i, key in enumerate(keys):
        forms = [key]
        if (named := f"{key} AS k{i}") in outputs:
            forms += [f"k{i}", str(outputs.index(named) + 1)]
        written.append(draw(st.sampled_from(forms)))
    group = draw(st.permutations([*written, window]))
    having = ["", "", " HAVING COUNT(*) > 1", f" HAVING unix_micros({name}.start) % 2 = 0 OR COUNT(*) > 3"]
    return ", ".join(outputs), f" GROUP BY {', '.join(group)}{draw(st.sampled_from(having))}"


@st.composite
def windowed_texts(draw: st.DrawFn, stream: Stream) -> str:
    """A SELECT with a window in GROUP BY over one stream."""
    kinds = [c.name for c in stream.columns if c.name in POOLS]
    keys = draw(st.lists(st.sampled_from([*kinds, "id > 9"]), max_size=2, unique=True))
    known = aggregates_of(kinds)
    if draw(st.booleans()):
        known = [*known, *_of_rows([*kinds, "id"], [k for k in kinds if k in "ilfdnw"] + ["id"])]
    selected, group = draw(_grouped(keys, known, "ts"))
    where = draw(st.sampled_from(["", "", " WHERE id > 2", f" WHERE {kinds[0]} IS NOT NULL"]))
    return f"SELECT {selected} FROM {stream.name}{where}{group}"


def _of_rows(values: Sequence[str], numbers: Sequence[str]) -> list[str]:
    number = numbers[-1]
    found = [f"COUNT(DISTINCT {v})" for v in values]
    found += [f"{f}({v})" for v in values for f in ("first", "last")]
    found += [f"{f}({v}, {by})" for v in values for by in values for f in ("max_by", "min_by")]
    found += [f"median({n})" for n in numbers] + [f"percentile({n}, 0.25)" for n in numbers]
    found += [f"max_by({values[0]}, {number}) FILTER (WHERE {v} IS NOT NULL)" for v in values]
    return [*found, f"COUNT(DISTINCT {number}) FILTER (WHERE {number} < 7)"]


@st.composite
def joined_window_texts(draw: st.DrawFn, declared: tuple[Stream, ...]) -> str:
    """A SELECT with a window in GROUP BY over a join of two or three references."""
    refs, rest = draw(any_from(declared, numbers=(2, 2, 3)))
    keys = draw(joined_keys(refs, rest))
    times = draw(st.permutations([f"{r.alias}.ts" for r in refs]))
    known = joined_aggregates(refs)
    if draw(st.integers(0, 2)) == 0:
        known = [*known, *_of_rows(["a.id", "b.id", *refs[-1].of("ilfdnwsxeub")], ["a.id", "b.id"])]
    selected, group = draw(_grouped(keys, known, f"greatest({', '.join(times)})"))
    return f"SELECT {selected} FROM {rest}{group}"


@st.composite
def window_cases(draw: st.DrawFn) -> AggregateCase:
    """A whole session over single streams, with an aggregate per row now and then."""
    declared = draw(streams())
    text = st.sampled_from(declared).flatmap(windowed_texts)
    texts = draw(st.lists(text, min_size=1, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        texts.append(draw(st.sampled_from(declared).flatmap(aggregate_texts)))
    return draw(sessions_of(declared, texts, sizes=(24, 40, 10, 1)))


@st.composite
def joined_window_cases(draw: st.DrawFn) -> AggregateCase:
    """A whole session with windows above joins, and one over a single stream now and then."""
    declared = draw(streams())
    texts = draw(st.lists(joined_window_texts(declared), min_size=1, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        texts.append(draw(st.sampled_from(declared).flatmap(windowed_texts)))
    return draw(sessions_of(declared, texts, sizes=(12, 18, 5, 1)))

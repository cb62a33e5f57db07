"""Hypothesis strategies for what only Spark can run: SELECTs at ingest, functions, tables, windows on them.

The rows that a SELECT at ingest makes are what Spark itself makes of each file. Over those that the late
rule accepts, DuckDB says what windows give; Spark says what functions give::

    files ── SELECT … WHERE … ──▶ rows ── late rule ──▶ accepted rows ──▶ windows, functions, tables
             Spark, one batch             StreamModel                     DuckDB, Spark
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from anabranch.plan.logical import Stream
from tests.support.generated import BASES_US, Batch, arrivals, batch_splits, streams
from tests.support.generated_windows import windowed_texts

LABELS = ((0, "none"), (1, "one"), (1, "uno"), (2, None), (None, "nil"))
"""Rows of the table: a key that is there twice, one without a label, and a NULL that meets nothing."""
TABLE = {
    "labels": "SELECT a.id, t.label FROM s0 a JOIN t ON a.id % 4 = t.k",
    "by_label": "SELECT t.label, window.start, COUNT(*) AS n, COUNT(DISTINCT a.id) AS ids "
    "FROM s0 a JOIN t ON a.id % 4 = t.k GROUP BY t.label, window(a.ts, '4 microseconds')",
}
_ANY = ("{c}", "named_struct('v', {c}).v", "element_at(array({c}, NULL), 1)", "if(id % 5 = 2, NULL, {c})")
_OF_KIND = {
    "s": ("lower({c})", "regexp_replace({c}, '[aA]', 'b')", "concat_ws('-', {c}, 'x')"),
    "i": ("try_add({c}, 1)", "{c} & 6"),
    "l": ("try_subtract({c}, 1)",),
    "d": ("abs({c})",),
    "u": ("date_trunc('MONTH', {c})",),
}
_FUNCTIONS = {
    "s": (
        "upper({c})",
        "replace({c}, 'a', 'bb')",
        "concat_ws('/', {c}, id)",
        "lpad({c}, 3, '0')",
        "md5({c})",
        "{c} RLIKE '^a'",
        "CAST({c} AS INT)",
        "split({c}, 'a')[0]",
    ),
    "i": ("{c} | 5", "CAST({c} AS STRING)"),
    "l": ("CAST({c} AS STRING)", "{c} % 7"),
    "d": ("round({c}, 1)",),
    "n": ("{c} / 3", "round({c}, 1)"),
    "u": ("date_format({c}, 'yyyy-MM')", "date_trunc('YEAR', {c})", "year({c})", "to_date({c})"),
    "e": ("datediff({c}, DATE '2000-01-01')", "month({c})", "date_format({c}, 'yyyy')"),
}


@dataclass(frozen=True, slots=True)
class FlowCase:
    """The life of one session of a flow file; every phase is a run, with so many sites, on its batches."""

    stream: Stream
    items: tuple[str, ...]
    """Of the SELECT at ingest, one for each column of the stream."""
    where: str
    queries: tuple[str, ...]
    """With windows, over the stream."""
    computed: str
    """With functions, over the stream."""
    phases: tuple[tuple[int, tuple[Batch, ...]], ...]
    seed: int
    """Of the moves at every boundary."""


@st.composite
def flow_cases(draw: st.DrawFn) -> FlowCase:
    """A session of one stream, in two runs."""
    stream = draw(streams())[0]
    kinds = [c.name for c in stream.columns if len(c.name) == 1]
    size = draw(st.sampled_from((36, 20)))
    rows = draw(arrivals(stream, size, base_us=draw(st.sampled_from(BASES_US)), broken=False))
    batches = draw(batch_splits({stream.name: rows}, 4))
    items = [f"{draw(st.sampled_from(_ANY + _OF_KIND.get(k, ()))).format(c=k)} AS {k}" for k in kinds]
    id_item = draw(st.sampled_from(("id", "id", "explode(array_repeat(id, 2)) AS id")))
    return FlowCase(
        stream,
        (id_item, *items, "ts"),
        draw(st.sampled_from(("TRUE", "id % 7 <> 3", f"{kinds[0]} IS NOT NULL"))),
        tuple(draw(st.lists(windowed_texts(stream), min_size=2, max_size=3))),
        draw(_computed(stream.name, kinds)),
        tuple((draw(st.sampled_from((1, 3))), part) for part in (batches[:2], batches[2:])),
        draw(st.integers(0, 99)),
    )


@st.composite
def _computed(draw: st.DrawFn, stream: str, kinds: Sequence[str]) -> str:
    known = ["id % 3", "CASE WHEN id > 9 THEN 'many' END"]
    known += [text.format(c=k) for k in kinds for text in _FUNCTIONS.get(k, ())]
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    outputs = ", ".join(f"{text} AS e{i}" for i, text in enumerate(chosen))
    return f"SELECT id, {outputs} FROM {stream} WHERE id % 4 <> 1"

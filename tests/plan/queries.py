"""Queries over three small streams, for tests of plans."""

from __future__ import annotations

from anabranch.language.flow import bind_query
from anabranch.plan.inputs import Layout, layout_of
from anabranch.plan.local_plan import LocalPlan, compile_plan
from anabranch.plan.logical import Column, Query, Stream
from anabranch.plan.tree import default_plan, parse_plan

COLUMNS = (
    Column("k", "bigint"),
    Column("j", "bigint"),
    Column("s", "string"),
    Column("v", "int"),
    Column("ts", "timestamp"),
)
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in ("x", "y", "z")}


def query(where: str, *, select: str = "a.v", name: str = "q", number: int = 3) -> Query:
    sources = ", ".join(
        f"{s} [RANGE {n} SECONDS] {a}" for s, a, n in list(zip("xyz", "abc", (1, 2, 3), strict=True))[:number]
    )
    return bind_query(name, f"SELECT {select} FROM {sources} WHERE {where}", STREAMS)


def layout(*queries: Query, **since: int) -> Layout:
    return layout_of(queries, since)


def plan_of(asked: Query, text: str | None = None) -> LocalPlan:
    """The local plan of a query: the default one, or the one written down."""
    laid = layout(asked)
    routed = laid.queries[0]
    return compile_plan(laid, routed, parse_plan(text) if text else default_plan(routed.graph))

"""Statistics made up for tests: same rate and window for all, selectivities as given."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from anabranch.plan.cost.estimates import JoinStatistics, edges_of
from anabranch.plan.graph import JoinGraph


def graph(aliases: str, classes: list[str], residuals: list[str] | None = None) -> JoinGraph:
    return JoinGraph(tuple(aliases), tuple(map(frozenset, classes)), tuple(map(frozenset, residuals or [])))


def statistics(
    asked: JoinGraph,
    *,
    rate: float = 100.0,
    window_s: float = 10.0,
    selectivity: float = 0.01,
    rates: Mapping[str, float] | None = None,
    rows: Mapping[str, float] | None = None,
    **selectivities: float,
) -> JoinStatistics:
    """`ab=0.1` gives the selectivity between a and b."""
    pairs = dict.fromkeys(edges_of(asked), selectivity)
    pairs |= {frozenset(names): value for names, value in selectivities.items()}
    return JoinStatistics(
        dict.fromkeys(asked.aliases, rate) | dict(rates or {}),
        dict.fromkeys(asked.aliases, window_s),
        pairs,
        dict(rows or {}),
    )


@st.composite
def graphs(draw: st.DrawFn, *, largest: int = 5) -> JoinGraph:
    aliases = "abcdefgh"[: draw(st.integers(1, largest))]
    if len(aliases) == 1:
        return graph(aliases, [])
    some = st.lists(st.sets(st.sampled_from(aliases), min_size=2).map("".join), max_size=3)
    return graph(aliases, draw(some), draw(some))


@st.composite
def random_statistics(draw: st.DrawFn, asked: JoinGraph) -> JoinStatistics:
    return JoinStatistics(
        {alias: draw(st.floats(0, 1000)) for alias in asked.aliases},
        {alias: draw(st.floats(0.1, 100)) for alias in asked.aliases},
        {pair: draw(st.floats(1e-5, 1)) for pair in edges_of(asked)},
        {alias: draw(st.floats(0, 1e5)) for alias in asked.aliases if draw(st.booleans())},
    )

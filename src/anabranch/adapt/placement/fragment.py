"""Query fragments (COSMOS, section 6.2.1): one per stream of a query, the unit that is placed and moved.

A query's operators form a tree. Each stream starts a fragment; operators with one input join the fragment
below them. One with two inputs goes to the fragment with the higher rate of results, so that the smaller of
both flows travels if they are placed apart. The other fragment ends there and is its *upstream* neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """An operator: CPU seconds for a row of its input, and rows that come out for one that goes in."""

    seconds: float
    selectivity: float


@dataclass(frozen=True, slots=True)
class Source:
    """A stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator with one input."""

    step: Step
    child: Tree


@dataclass(frozen=True, slots=True)
class Meet:
    """An operator with two inputs."""

    step: Step
    left: Tree
    right: Tree


Tree = Source | Apply | Meet


@dataclass(slots=True)
class Fragment:
    """The operators of a query that start at one stream.

    Attributes
    ----------
    work
        By stream whose rows it sees: CPU seconds for each row of that stream.
    path
        By stream whose rows may become results here: CPU seconds of a row that does, all of its way through
        this fragment. Every operator lets such a row pass at least once (equation 6.1).
    out
        By stream: rows that leave for the downstream neighbour, for each row of that stream.
    """

    query: int
    stream: int
    work: dict[int, float] = field(default_factory=dict)
    path: dict[int, float] = field(default_factory=dict)
    out: dict[int, float] = field(default_factory=dict)
    kept: dict[int, float] = field(default_factory=dict)
    """By stream: rows that joins keep for their windows, for each row of that stream."""
    downstream: int | None = None
    operators: int = 0
    reads_stream: bool = True
    """Whether rows of its stream come to it directly; else its neighbours bring them."""


def build_fragments(query: int, tree: Tree, rates: Mapping[int, float]) -> list[Fragment]:
    """Cut a query into fragments; downstream neighbours are numbered by their place in the list.

    Parameters
    ----------
    rates
        Estimated rows a second of each stream.

    Examples
    --------
    >>> slow, fast = Source(0), Apply(Step(20e-6, 0.5), Source(1))
    >>> left, right = build_fragments(7, Meet(Step(80e-6, 1.0), slow, fast), {0: 10.0, 1: 100.0})
    >>> left.downstream, right.downstream, right.operators
    (1, None, 2)
    """
    found: list[Fragment] = []
    _grow(query, tree, rates, found)
    return found


def _grow(
    query: int, tree: Tree, rates: Mapping[int, float], found: list[Fragment]
) -> tuple[int, dict[int, float]]:
    """Grow fragments along a tree; returns the one at its top, and what comes out by stream."""
    match tree:
        case Source(stream):
            found.append(Fragment(query, stream, path={stream: 0.0}))
            return len(found) - 1, {stream: 1.0}
        case Apply(step, child):
            top, flow = _grow(query, child, rates, found)
            return top, _add(found[top], step, flow)
        case Meet(step, left, right):
            (a, from_a), (b, from_b) = (_grow(query, side, rates, found) for side in (left, right))
            if _rate(from_b, rates) > _rate(from_a, rates):
                a, b, from_a, from_b = b, a, from_b, from_a
            found[b].downstream, found[b].out = a, dict(from_b)
            for stream in from_b:
                found[a].path.setdefault(stream, 0.0)
            keep(found[a], {**from_a, **from_b})
            return a, _add(found[a], step, {**from_a, **from_b})


def keep(fragment: Fragment, flow: Mapping[int, float]) -> None:
    """Rows that a join of the fragment keeps."""
    for stream, rows in flow.items():
        fragment.kept[stream] = fragment.kept.get(stream, 0.0) + rows


def _add(fragment: Fragment, step: Step, flow: Mapping[int, float]) -> dict[int, float]:
    fragment.operators += 1
    for stream, rows in flow.items():
        fragment.work[stream] = fragment.work.get(stream, 0.0) + rows * step.seconds
        fragment.path[stream] += step.seconds * max(step.selectivity, 1.0)
    return {stream: rows * step.selectivity for stream, rows in flow.items()}


def _rate(flow: Mapping[int, float], rates: Mapping[int, float]) -> float:
    return sum(rates[stream] * rows for stream, rows in flow.items())

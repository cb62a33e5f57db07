"""Queries of the experiments on placement (COSMOS, section 6.3): joins of filtered streams."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.adapt.placement.fragment import (
    Apply,
    Fragment,
    Meet,
    Source,
    Step,
    Tree,
    build_fragments,
    keep,
)

FILTER_S, JOIN_S = 20e-6, 80e-6
FILTERS = 4
"""On each stream of a query."""
LEAST_KEPT, MOST_KEPT = 0.5, 0.8
ROW_BYTES = 100
LEAST_WINDOW_S, MOST_WINDOW_S = 5.0, 20.0
"""Of joins; the paper has 5000 to 20000, with rows 4 ms apart."""


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """What is asked of a cluster.

    Attributes
    ----------
    skew
        Exponent of the Zipf distribution of streams; None gives each stream as many queries as any other.
    units
        Units that the operators of one stream are moved in. One is a fragment. With n, joins are units of
        their own and the filters of a stream are cut into n - 1.
    work_share
        Of the work of all operators, what is left where queries share group filters and SteMs, as in the
        engine of the paper: a site is busy for about 0.3 of the time. Three times that can still be done,
        which figures 6.7 to 6.9 need: static placement recovers there as soon as the rates fall.
    """

    sites: int = 32
    streams_per_site: int = 3
    queries: int = 500
    rows_per_s: float = 250.0
    skew: float | None = None
    units: int = 1
    work_share: float = 0.45
    seed: int = 0

    @property
    def streams(self) -> int:
        return self.sites * self.streams_per_site

    def native(self) -> np.ndarray:
        """By stream the site that it comes in at."""
        return np.arange(self.streams) // self.streams_per_site


def fragments_of(load: QueryLoad) -> tuple[list[Fragment], np.ndarray]:
    """Fragments of all queries, neighbours numbered in the list, and the bytes of their states."""
    rng = random.Random(load.seed)
    rates = dict.fromkeys(range(load.streams), load.rows_per_s)
    found: list[Fragment] = []
    for query, streams in enumerate(_streams_of_queries(load, rng)):
        tree, its = _tree(streams, rng, load.units - 1 or FILTERS), list[Fragment]()
        if load.units == 1:
            its = build_fragments(query, tree, rates)
        else:
            _operators(query, tree, its)
        for fragment in its:
            if fragment.downstream is not None:
                fragment.downstream += len(found)
        found += its
    kept = np.array([sum(fragment.kept.values()) * load.rows_per_s for fragment in found])
    windows = np.array([rng.uniform(LEAST_WINDOW_S, MOST_WINDOW_S) for _ in found])
    return found, kept * windows * ROW_BYTES


def _streams_of_queries(load: QueryLoad, rng: random.Random) -> list[list[int]]:
    sizes = [rng.randint(1, 4) for _ in range(load.queries)]
    if load.skew is None:
        return _evenly(sizes, load.streams, rng)
    ranks = list(range(load.streams))
    rng.shuffle(ranks)
    weights = [1 / (rank + 1) ** load.skew for rank in ranks]
    return [_distinct(load.streams, weights, size, rng) for size in sizes]


def _distinct(streams: int, weights: Sequence[float], size: int, rng: random.Random) -> list[int]:
    found: dict[int, None] = {}
    while len(found) < size:
        found[rng.choices(range(streams), weights)[0]] = None
    return list(found)


def _evenly(sizes: Sequence[int], streams: int, rng: random.Random) -> list[list[int]]:
    """Streams dealt like cards, so that all are used equally often."""
    deck: list[int] = []
    dealt = []
    for size in sizes:
        hand: dict[int, None] = {}
        while len(hand) < size:
            if not deck:
                deck = rng.sample(range(streams), streams)
            hand[deck.pop()] = None
        dealt.append(list(hand))
    return dealt


def _tree(streams: Sequence[int], rng: random.Random, parts: int) -> Tree:
    """Filtered streams joined one after the other; consecutive filters are merged into `parts`."""
    sides = []
    for stream in streams:
        filters = [Step(FILTER_S, rng.uniform(LEAST_KEPT, MOST_KEPT)) for _ in range(FILTERS)]
        while len(filters) > parts:
            first, second = filters[:2]
            both = Step(
                first.seconds + first.selectivity * second.seconds, first.selectivity * second.selectivity
            )
            filters[:2] = [both]
        side: Tree = Source(stream)
        for step in filters:
            side = Apply(step, side)
        sides.append(side)
    tree = sides[0]
    for side in sides[1:]:
        tree = Meet(Step(JOIN_S, rng.uniform(LEAST_KEPT, MOST_KEPT)), tree, side)
    return tree


def _operators(query: int, tree: Tree, found: list[Fragment]) -> tuple[int, dict[int, float]]:
    """Each operator as a unit of its own: what moves where there are no fragments (the paper's [86]).

    Returns the unit at the top of a tree, and what comes out by stream.
    """
    match tree:
        case Source(stream):
            found.append(Fragment(query, stream, path={stream: 0.0}))
            return len(found) - 1, {stream: 1.0}
        case Apply(step, child):
            return _unit(query, step, [_operators(query, child, found)], found)
        case Meet(step, left, right):
            return _unit(query, step, [_operators(query, side, found) for side in (left, right)], found)


def _unit(
    query: int, step: Step, below: list[tuple[int, dict[int, float]]], found: list[Fragment]
) -> tuple[int, dict[int, float]]:
    flow = {stream: rows for _, its in below for stream, rows in its.items()}
    first = found[below[0][0]]
    if len(below) == 1 and first.reads_stream and not first.operators:
        unit, number = first, below[0][0]
    else:
        unit, number = Fragment(query, first.stream, reads_stream=False), len(found)
        found.append(unit)
        for top, its in below:
            found[top].downstream, found[top].out = number, its
    unit.operators = 1
    if len(below) > 1:
        keep(unit, flow)
    unit.work = {stream: rows * step.seconds for stream, rows in flow.items()}
    unit.path = dict.fromkeys(flow, step.seconds)
    return number, {stream: rows * step.selectivity for stream, rows in flow.items()}

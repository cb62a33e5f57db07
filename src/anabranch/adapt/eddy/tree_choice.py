"""Which spanning tree the stations of a join with cycles have: chosen by what its edges are seen to cost.

Stations count what happens along their own edges alone. How often rows of two other references would meet is
told by sketches of their keys, which first hops make of new rows now and then. A join gets another tree when
that has been clearly cheaper for some looks in a row: it goes by way of a join tree on one site, for a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.measures.key_sketch import KeySketch
from anabranch.plan.cost.estimates import Estimates, JoinStatistics, edges_of
from anabranch.plan.cost.plan_cost import UnitCosts
from anabranch.plan.graph import JoinGraph
from anabranch.plan.stations.join_tree import EdgeEnds, JoinTree
from anabranch.plan.stations.spanning_trees import cheapest_tree, ends_of, tree_cost

LOOK_EVERY = 4
"""Batches between two sketches of keys."""
LOOKS = 3
"""For so many in a row another tree has to be clearly cheaper."""
CLEARLY = 1.5
"""How many times as much the present tree has to cost before state is read once more."""
FADE = 0.5
"""What is left of the past with each look."""
PREDICATE = 1 / 3
"""Selectivity of a predicate that nobody has tried, as System R had it."""

KeyOf = tuple[str, str, int]
"""A query, a reference of it, and a key class."""
Sketches = Mapping[KeyOf, KeySketch]


@dataclass(frozen=True, slots=True)
class CyclicJoin:
    """A join whose equalities have several spanning trees.

    Attributes
    ----------
    tree
        That of its stations, or the one that they would have.
    """

    query: str
    graph: JoinGraph
    windows_s: Mapping[str, float]
    tree: JoinTree
    at_stations: bool


@dataclass(frozen=True, slots=True)
class TreeRates:
    """What trees of a join cost, in CPU seconds of a site per second of event time."""

    now: float
    best: float
    tree: JoinTree

    @property
    def is_clear(self) -> bool:
        return self.now > CLEARLY * self.best


@dataclass(frozen=True, slots=True)
class TreeVotes:
    """A value: each step gives another one.

    Attributes
    ----------
    sketches, seconds
        Keys of new rows, and the event time in which they came, older ones fading. Not in the manifest: they
        are soon there again.
    votes
        By join, for how many looks in a row another tree was clearly cheaper.
    turning
        By join that is to get another tree, its edges.
    best
        By join on one site, the edges that its stations would have.
    """

    sketches: Sketches = field(default_factory=dict)
    seconds: float = 0.0
    votes: Mapping[str, int] = field(default_factory=dict)
    turning: Mapping[str, tuple[EdgeEnds, ...]] = field(default_factory=dict)
    best: Mapping[str, tuple[EdgeEnds, ...]] = field(default_factory=dict)

    @property
    def wanted(self) -> dict[str, tuple[EdgeEnds, ...]]:
        """By join, the edges of the tree that its stations are to have."""
        return {**self.best, **self.turning}

    def after(
        self,
        joins: Sequence[CyclicJoin],
        seen: Sketches,
        costs: UnitCosts,
        *,
        elapsed_s: float,
        hop_s: float,
        sites: int,
    ) -> tuple[TreeVotes, dict[str, TreeRates]]:
        """The votes after a step, and what trees cost of joins that are to get another one.

        Parameters
        ----------
        elapsed_s
            Event time that passed.
        hop_s
            What a hop of a batch takes.
        """
        ends = {join.query: ends_of(join.tree) for join in joins}
        back = {j.query for j in joins if j.at_stations and self.turning.get(j.query) == ends[j.query]}
        turning = {name: to for name, to in self.turning.items() if name in ends and name not in back}
        if not joins or not seen or elapsed_s <= 0:
            votes = {name: n for name, n in self.votes.items() if name in ends}
            best = {name: edges for name, edges in self.best.items() if name in ends}
            return TreeVotes(self.sketches, self.seconds, votes, turning, best), {}
        known = {key: self._and_now(key, sketch) for key, sketch in seen.items()}
        seconds = FADE * self.seconds + elapsed_s
        votes, best, changed = dict[str, int](), dict[str, tuple[EdgeEnds, ...]](), dict[str, TreeRates]()
        for join in joins:
            rates = _rates(join, known, seconds, costs, hop_s=hop_s / elapsed_s, sites=sites)
            if rates is None:
                continue
            if not join.at_stations:
                best[join.query] = ends_of(rates.tree if rates.is_clear else join.tree)
            votes[join.query] = self.votes.get(join.query, 0) + 1 if rates.is_clear else 0
            if join.at_stations and join.query not in turning and votes[join.query] >= LOOKS:
                turning[join.query], votes[join.query] = ends_of(rates.tree), 0
                changed[join.query] = rates
        return TreeVotes(known, seconds, votes, turning, best), changed

    def _and_now(self, key: KeyOf, sketch: KeySketch) -> KeySketch:
        before = self.sketches.get(key)
        return sketch if before is None else before.faded(FADE).and_also(sketch)

    def to_json(self) -> dict[str, Any]:
        return {name: [list(edge) for edge in edges] for name, edges in self.turning.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TreeVotes:
        turning = {name: tuple((a, b, c) for a, b, c in edges) for name, edges in data.items()}
        return cls(turning=turning)


def _rates(
    join: CyclicJoin, known: Sketches, seconds: float, costs: UnitCosts, *, hop_s: float, sites: int
) -> TreeRates | None:
    """What the tree there is costs, and the best one; None where not all is known."""
    mine = {key[1:]: sketch for key, sketch in known.items() if key[0] == join.query and sketch.rows}
    rows = {alias: sketch.rows for (alias, _), sketch in mine.items()}
    if rows.keys() != {*join.graph.aliases} or math.inf in join.windows_s.values():
        return None
    selectivities = {}
    for pair in edges_of(join.graph):
        one, other = sorted(pair)
        classes = join.graph.shared_classes((one,), (other,))
        shares = [mine[one, c].share(mine[other, c]) for c in classes]
        selectivities[pair] = math.prod(shares) if shares else PREDICATE
    rates = {alias: count / seconds for alias, count in rows.items()}
    estimates = Estimates(join.graph, JoinStatistics(rates, join.windows_s, selectivities))
    found = cheapest_tree(join.graph, estimates, costs, hop_s=hop_s, sites=sites)
    if found is None:
        return None
    now = tree_cost(join.tree, estimates, costs, hop_s=hop_s, sites=sites)
    return TreeRates(now, found[1], found[0])

"""Estimates: how many rows any set of references has in state, and how fast they are made.

The papers multiply the reduction factors of the joins (CAPE, equation 2). Within
a key class that would count the same equality more than once: with a = b and b = c, a = c is no news.
So a reference that joins a set pays once per class, and once per predicate that spans just two references.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import UNBOUNDED_US, Query
from anabranch.plan.search.candidates import References

LEAST_ROWS = 1e-6
"""An empty state counts as this: ratios stay defined, and joining it early still looks as good as it is."""
LEAST_SELECTIVITY = 1e-12
MOST_BLOCKS = 12
"""Blocks of a state beyond which they are merged (`Settings.max_blocks`)."""

Reason = int | References
"""Why two references are joined: a key class, or the two themselves for predicates over just them."""


@dataclass(frozen=True, slots=True)
class JoinStatistics:
    """What is known about the references of one query at one site.

    Attributes
    ----------
    rates
        Arrivals per reference, in rows per second of event time.
    windows_s
        Window per reference; infinite for `[RANGE UNBOUNDED]`.
    selectivities
        Per pair of references with an edge: pairs / (rows of one × rows of the other).
    state_rows
        Rows in state per reference, where known; otherwise rate × window.
    batch_s
        Event time from batch to batch; 0 where it is not known.
    batches
        Batches that were seen so far: a state has no more blocks than that.
    doubts
        Standard errors of selectivities that come from samples.
    passing
        Per pair of references with a key and predicates over both: of the pairs that share the key, the
        share for which the predicates are true. `selectivities` have it in them.
    """

    rates: Mapping[str, float]
    windows_s: Mapping[str, float]
    selectivities: Mapping[References, float]
    state_rows: Mapping[str, float] = field(default_factory=dict)
    batch_s: float = 0.0
    batches: float = math.inf
    doubts: Mapping[References, float] = field(default_factory=dict)
    passing: Mapping[References, float] = field(default_factory=dict)

    def doubted(self, pair: References, errors: float) -> JoinStatistics:
        """The same with one selectivity so many standard errors higher.

        >>> known = JoinStatistics({}, {}, {frozenset("ab"): 0.5}, doubts={frozenset("ab"): 0.1})
        >>> known.doubted(frozenset("ab"), -1).selectivities[frozenset("ab")]
        0.4
        """
        found = self.selectivities[pair] + errors * self.doubts[pair]
        within = min(1.0, max(LEAST_SELECTIVITY, found))
        return replace(self, selectivities={**self.selectivities, pair: within})

    def rows_of(self, alias: str) -> float:
        """|S_A| = λ_A W (section 5.1), unless the rows were counted."""
        rows = self.state_rows.get(alias)
        if rows is None:
            if math.isinf(self.windows_s[alias]):
                raise ValueError(f"the window of {alias!r} is unbounded: its rows in state must be given")
            rows = self.rates[alias] * self.windows_s[alias]
        return max(rows, LEAST_ROWS)

    @property
    def longest_window_s(self) -> float:
        return max(self.windows_s.values())

    def settled(self) -> JoinStatistics:
        """The same a window later, if rates stay: states have the size that rate and window give them.

        >>> JoinStatistics({"a": 2.0}, {"a": 10.0}, {}, {"a": 500.0}).settled().rows_of("a")
        20.0
        """
        unbounded = {a: n for a, n in self.state_rows.items() if math.isinf(self.windows_s[a])}
        return replace(self, state_rows=unbounded, batches=math.inf)


def window_seconds(query: Query) -> dict[str, float]:
    """Windows of a query's references, as the statistics have them."""
    return {r.alias: math.inf if r.window_us >= UNBOUNDED_US else r.window_us / 1e6 for r in query.refs}


def edges_of(graph: JoinGraph) -> tuple[References, ...]:
    """Pairs whose selectivity is wanted: a key class or a predicate over just these two joins them.

    >>> graph = JoinGraph(("a", "b", "c"), (frozenset("ab"),), (frozenset("bc"), frozenset("abc")))
    >>> [sorted(pair) for pair in edges_of(graph)]
    [['a', 'b'], ['b', 'c']]
    """
    return tuple(pair for pair in map(frozenset, combinations(graph.aliases, 2)) if _reasons(graph, pair))


class Estimates:
    """Sizes and rates of every set of references, worked out when asked for and kept.

    Predicates over three and more references are taken to let everything pass.
    """

    def __init__(self, graph: JoinGraph, statistics: JoinStatistics) -> None:
        self.graph = graph
        self.statistics = statistics
        self._parts = _parts(graph, statistics)
        self._single = {alias: statistics.rows_of(alias) for alias in graph.aliases}
        self._rows: dict[References, float] = {frozenset((a,)): n for a, n in self._single.items()}
        self._rates: dict[References, float] = {}

    def rows(self, references: References) -> float:
        """Rows in state over these references.

        The smallest of card(S) · n_x · selectivity(x, S) over the choice of the reference x that joins last.
        """
        known = self._rows.get(references)
        if known is None:
            known = min(
                self.rows(rest := references - {last}) * self._single[last] * self._selectivity(last, rest)
                for last in references
            )
            self._rows[references] = known
        return known

    def rate(self, references: References) -> float:
        """Rows made per second of event time: equation 2, for any number of references.

        A new row of one reference makes as many as it has partners, so λ_S = Σ_x λ_x · |S| / n_x.
        """
        known = self._rates.get(references)
        if known is None:
            rates = self.statistics.rates
            # fsum does not depend on the order of a set, which changes from process to process
            known = self.rows(references) * math.fsum(rates[x] / self._single[x] for x in references)
            self._rates[references] = known
        return known

    def met(self, left: References, right: References) -> float:
        """Pairs found a second when two sides are joined, before predicates are checked.

        >>> graph = JoinGraph(("a", "b"), (frozenset("ab"),), (frozenset("ab"),))
        >>> ab = frozenset("ab")
        >>> known = JoinStatistics({"a": 1.0, "b": 1.0}, {"a": 8.0, "b": 8.0}, {ab: 0.01}, passing={ab: 0.1})
        >>> pairs = Estimates(graph, known)
        >>> round(pairs.rate(ab), 3), round(pairs.met(frozenset("a"), frozenset("b")), 3)
        (0.16, 1.6)
        """
        if not self.graph.shared_classes(left, right):  # every new row meets every row of the other side
            return self.rate(left) * self.rows(right) + self.rate(right) * self.rows(left)
        return self.rate(left | right) / self.passing(left, right)

    def passing(self, left: References, right: References) -> float:
        """Of pairs that share a key, the share for which predicates over a reference of each are true."""
        shares = self.statistics.passing
        return math.prod(shares[pair] for pair in shares if len(pair & left) == len(pair & right) == 1)

    def blocks(self, references: References) -> float:
        """Blocks that the state over these references is in; 0 where it is not known how long a batch is.

        >>> graph = JoinGraph(("a",), (), ())
        >>> known = JoinStatistics({"a": 1.0}, {"a": 8.0}, {}, batch_s=2.0)
        >>> Estimates(graph, known).blocks(frozenset("a"))
        5.0
        """
        known = self.statistics
        if known.batch_s <= 0:
            return 0.0
        window = min(known.windows_s[alias] for alias in references)
        return min(window / known.batch_s + 1, known.batches, MOST_BLOCKS)

    def _selectivity(self, last: str, rest: References) -> float:
        """Of all combinations, the share that passes when `last` joins `rest`; classes are independent.

        One factor per edge reason: the geometric mean where several members of a class speak for it.
        """
        total = 0.0
        for reason in self._parts.get(last, ()):
            spoken = [part for other, part in reason.items() if other in rest]
            if spoken:
                total += sum(spoken) / len(spoken)
        return math.exp(total)


def _reasons(graph: JoinGraph, pair: References) -> list[Reason]:
    reasons: list[Reason] = [c for c, members in enumerate(graph.class_aliases) if pair <= members]
    return [*reasons, pair] if pair in graph.residual_aliases else reasons


def _parts(graph: JoinGraph, statistics: JoinStatistics) -> dict[str, list[dict[str, float]]]:
    """Per reference and reason, the logarithm of the selectivity towards each other reference."""
    reasons = {pair: _reasons(graph, pair) for pair in edges_of(graph)}
    logs = {pair: _log_selectivity(statistics, pair) for pair in reasons}
    parts: dict[str, dict[Reason, dict[str, float]]] = {alias: {} for alias in graph.aliases}
    for (pair, reason), part in _shares(reasons, logs).items():
        one, other = pair
        parts[one].setdefault(reason, {})[other] = part
        parts[other].setdefault(reason, {})[one] = part
    return {alias: list(by_reason.values()) for alias, by_reason in parts.items()}


def _log_selectivity(statistics: JoinStatistics, pair: References) -> float:
    try:
        selectivity = statistics.selectivities[pair]
    except KeyError:
        raise ValueError(f"no selectivity is given for the edge {' – '.join(sorted(pair))}") from None
    return math.log(min(1.0, max(LEAST_SELECTIVITY, selectivity)))


def _shares(
    reasons: Mapping[References, list[Reason]], logs: Mapping[References, float]
) -> dict[tuple[References, Reason], float]:
    """Divide each pair's selectivity among its reasons.

    Only the product is measured. What a class contributes shows where it joins other pairs alone: least
    squares over all pairs finds it, and what it leaves unexplained is divided evenly.
    """
    if all(len(found) == 1 for found in reasons.values()):
        return {(pair, found[0]): logs[pair] for pair, found in reasons.items()}
    index = {
        reason: i for i, reason in enumerate(dict.fromkeys(r for found in reasons.values() for r in found))
    }
    matrix = np.array([[float(reason in found) for reason in index] for found in reasons.values()])
    target = np.array([logs[pair] for pair in reasons])
    usual = np.linalg.lstsq(matrix, target, rcond=None)[0]
    left_over = target - matrix @ usual
    return {
        (pair, reason): float(usual[index[reason]] + left_over[row] / len(found))
        for row, (pair, found) in enumerate(reasons.items())
        for reason in found
    }

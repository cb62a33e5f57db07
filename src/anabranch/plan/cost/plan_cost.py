"""Costs: CPU seconds that a plan takes for one second of event time, join by join, and the rows it keeps.

New rows of either side probe the state of the other, make pairs, and the pairs are inserted into the
state of the node: the cost of join and insert in CAPE, equation 5, for a hash join.
The cost of purge is not there, because a block expires as a whole; nor is that of keeping the
references' own rows, because every plan does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.search.candidates import References
from anabranch.plan.tree import Plan, Probe, joins

TERMS = 4
PULL = 0.001
"""Least weight of what was believed before, as a share of the observations' own weight."""
USUALLY_OFF = 0.5
"""Share by which a unit is usually off the usual proportions: the noisier the observations, the more this
decides, or batches that are all alike would put their noise on whichever unit it fits."""
LEAST_SHARE = 0.1
"""No term is fitted below this share of what the usual proportions would give it."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds per unit of work, on one core.

    Attributes
    ----------
    probe_s
        Per row that looks for partners.
    pair_s
        Per pair found; where there is no key to look by, per pair examined (the paper's T_j).
    insert_s
        Per row inserted into an intermediate state (T_s).
    gather_s
        Per row read together when a state is recomputed.
    block_probe_s
        Per block of state in which the new rows of a batch find something (`plan/cost/probe_counts.py`).
    """

    probe_s: float = 2e-7
    pair_s: float = 1e-7
    insert_s: float = 2e-7
    gather_s: float = 1e-7
    block_probe_s: float = 6e-5


@dataclass(frozen=True, slots=True)
class Work:
    """Numbers of probes, pairs, inserts and block probes; per second of event time where a rate is meant."""

    probes: float
    pairs: float
    inserts: float
    block_probes: float = 0.0

    def seconds(self, costs: UnitCosts) -> float:
        """What this work takes.

        >>> Work(probes=10, pairs=4, inserts=1).seconds(UnitCosts(0.5, 0.25, 3.0))
        9.0
        """
        by_row = costs.probe_s * self.probes + costs.pair_s * self.pairs + costs.insert_s * self.inserts
        return by_row + costs.block_probe_s * self.block_probes


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One join of a plan, or one stream's probes of a plan without intermediate states.

    Attributes
    ----------
    aliases
        What the node covers; for a stream's probes, itself and then the others in probing order.
    rows
        Rows in the state that the node keeps; 0 where it keeps none.
    """

    aliases: tuple[str, ...]
    work: Work
    seconds: float
    rows: float


@dataclass(frozen=True, slots=True)
class PlanCost:
    """A plan's nodes, children before parents."""

    nodes: tuple[NodeCost, ...]

    @property
    def seconds(self) -> float:
        """CPU seconds per second of event time."""
        return sum(node.seconds for node in self.nodes)

    @property
    def rows(self) -> float:
        """Rows in intermediate states."""
        return sum(node.rows for node in self.nodes)


def plan_cost(plan: Plan, estimates: Estimates, costs: UnitCosts) -> PlanCost:
    """What a plan costs while rates, selectivities and states are as the statistics say."""
    if isinstance(plan, Probe):
        return multiway_cost(estimates, costs, {order[0]: order[1:] for order in plan.orders})
    whole = len(plan.aliases)
    nodes = []
    for join in joins(plan):
        left, right = frozenset(join.left.aliases), frozenset(join.right.aliases)
        kept = len(left) + len(right) < whole
        work = join_work(left, right, estimates, kept=kept)
        rows = estimates.rows(left | right) if kept else 0.0
        nodes.append(NodeCost(join.aliases, work, work.seconds(costs), rows))
    return PlanCost(tuple(nodes))


def join_work(left: References, right: References, estimates: Estimates, *, kept: bool) -> Work:
    """Work of one join per second of event time; the root of a plan is not `kept`."""
    left_rate, right_rate, made = (estimates.rate(rows) for rows in (left, right, left | right))
    return Work(left_rate + right_rate, estimates.met(left, right), made if kept else 0.0)


def multiway_cost(
    estimates: Estimates, costs: UnitCosts, orders: Mapping[str, tuple[str, ...]] | None = None
) -> PlanCost:
    """What the plan without intermediate states costs: each new row probes the other references in turn.

    Parameters
    ----------
    orders
        Per reference; those of `probe_orders` if not given.
    """
    nodes = []
    for alias, order in (orders or probe_orders(estimates)).items():
        reached = frozenset((alias,))
        rate = estimates.statistics.rates[alias]
        probes = pairs = made = 0.0
        found = rate
        for other in order:
            probes += found
            made += found if len(reached) > 1 else 0.0  # put together and sorted, though not kept
            now = reached | {other}
            met = found * estimates.rows(frozenset((other,)))
            found = rate * estimates.rows(now) / estimates.rows(frozenset((alias,)))
            on_key = estimates.graph.shared_classes(reached, (other,))
            pairs += found / estimates.passing(reached, frozenset((other,))) if on_key else met
            reached = now
        work = Work(probes, pairs, made)
        nodes.append(NodeCost((alias, *order), work, work.seconds(costs), 0.0))
    return PlanCost(tuple(nodes))


def probe_orders(estimates: Estimates) -> dict[str, tuple[str, ...]]:
    """Per reference, in which order its new rows probe the others: always the one with the fewest partners.

    Keys go before predicates, and predicates before cross products, as in the default plan.
    """
    return {alias: _probe_order(alias, estimates) for alias in estimates.graph.aliases}


def _probe_order(start: str, estimates: Estimates) -> tuple[str, ...]:
    graph = estimates.graph
    order = [start]
    rest = [alias for alias in graph.aliases if alias != start]
    while rest:
        reached = frozenset(order)
        on_key = [alias for alias in rest if graph.shared_classes(reached, (alias,))]
        connected = [alias for alias in rest if graph.connected(reached, (alias,))]
        fan_out = {alias: estimates.rows(reached | {alias}) for alias in on_key or connected or rest}
        order.append(min(fan_out, key=fan_out.__getitem__))
        rest.remove(order[-1])
    return tuple(order[1:])


@dataclass(frozen=True, slots=True)
class WorkObserved:
    """Work that was counted, and the CPU seconds it took."""

    work: Work
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the observations so far say about the units: sums for least squares, older ones fading.

    Attributes
    ----------
    products
        Sums of products of the counts (probes, pairs, inserts, block probes), row by row.
    moments
        Sums of the counts times seconds.
    squares, weight
        Sum of the seconds' squares, and of observations: how far they are off what the units explain.
    """

    products: tuple[float, ...] = (0.0,) * TERMS**2
    moments: tuple[float, ...] = (0.0,) * TERMS
    squares: float = 0.0
    weight: float = 0.0

    def add(self, observed: WorkObserved, *, decay: float = 0.9) -> Calibration:
        """Learn from one observation; the earlier ones keep `decay` of their weight."""
        work = observed.work
        counts = np.array([work.probes, work.pairs, work.inserts, work.block_probes])
        products = decay * np.array(self.products) + np.outer(counts, counts).ravel()
        moments = decay * np.array(self.moments) + counts * observed.seconds
        return Calibration(
            tuple(map(float, products)),
            tuple(map(float, moments)),
            decay * self.squares + observed.seconds**2,
            decay * self.weight + 1,
        )

    def unit_costs(self, usual: UnitCosts | None = None) -> UnitCosts:
        """The units that explain the observations best, near the usual proportions where they leave it open.

        Gathering is not observed; it follows the other units.
        """
        usual = usual or UnitCosts()
        prior = np.array([usual.probe_s, usual.pair_s, usual.insert_s, usual.block_probe_s])
        # In multiples of the usual costs, so that the terms are of one size.
        gram = np.array(self.products).reshape(TERMS, TERMS) * np.outer(prior, prior)
        moment = np.array(self.moments) * prior
        weight = float(gram.sum())
        if weight <= 0 or moment.sum() <= 0:
            return usual
        ratio = float(moment.sum()) / weight  # all units off by the same factor
        fitted, pull = np.zeros(TERMS), PULL * float(np.trace(gram))
        for _ in range(2):  # the first fit tells how noisy the observations are, the second uses it
            held = gram + pull * np.eye(TERMS), moment + pull * ratio
            fitted = _at_least(*held, least=np.full(TERMS, LEAST_SHARE * ratio))
            unexplained = self.squares - 2 * float(fitted @ moment) + float(fitted @ gram @ fitted)
            noise = max(0.0, unexplained) / max(self.weight, 1.0)
            pull = max(pull, noise / (USUALLY_OFF * ratio) ** 2)
        probe_s, pair_s, insert_s, block_probe_s = (float(v) for v in fitted * prior)
        return UnitCosts(probe_s, pair_s, insert_s, usual.gather_s * ratio, block_probe_s)

    def to_json(self) -> dict[str, list[float]]:
        sums = {"products": list(self.products), "moments": list(self.moments)}
        return {**sums, "noise": [self.squares, self.weight]}

    @classmethod
    def from_json(cls, data: Mapping[str, Iterable[float]]) -> Calibration:
        """As `to_json` gave it; one of other terms is of another release and teaches nothing."""
        products, moments = (tuple(map(float, data[name])) for name in ("products", "moments"))
        return cls(products, moments, *map(float, data["noise"])) if len(moments) == TERMS else cls()


def _at_least(
    gram: npt.NDArray[np.float64], moment: npt.NDArray[np.float64], *, least: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Solve least squares with a lower bound per term: terms that fall below it are held there."""
    solved, free = least.copy(), np.ones(len(least), dtype=bool)
    while free.any():
        held = moment - gram[:, ~free] @ least[~free]
        solved[free] = np.linalg.solve(gram[np.ix_(free, free)], held[free])
        low = free & (solved < least)
        if not low.any():
            break
        solved[low], free = least[low], free & ~low
    return solved

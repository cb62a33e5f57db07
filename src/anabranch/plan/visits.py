"""Visits: how often a batch's new rows meet a block of state and find something there.

A state is a number of blocks, and every join goes through those of both its sides, in every batch. A visit
that finds pairs has a price of its own, however many it finds: rows are gathered column by column. With
few rows per batch this is most of what a track costs, and what a second track costs whatever its rows
are. Which of two trees is cheaper hardly depends on it, so that `plan_cost` leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anabranch.plan.candidates import References
from anabranch.plan.estimates import Estimates
from anabranch.plan.tree import Plan, Probe, joins


def found_by(visits: float, pairs: float) -> float:
    """Of so many visits, those that find something, when pairs fall on them at random.

    >>> found_by(10, 0), round(found_by(10, 10), 1), round(found_by(10, 1000), 1)
    (0.0, 6.3, 10.0)
    """
    return visits * (1 - math.exp(-pairs / visits)) if visits > 0 else 0.0


def join_visits(left: References, right: References, estimates: Estimates, *, filling: bool = False) -> float:
    """Visits of one join in a batch; `filling`, on average over the window in which its states fill.

    At time t < W a state over m references has (t/W)^m of its rows, and half of its blocks on average.
    """
    blocks = estimates.blocks(left) + estimates.blocks(right)
    if not blocks:
        return 0.0
    both = left | right
    pairs = estimates.rate(both) * estimates.statistics.batch_s
    if filling:
        blocks, pairs = blocks / 2, pairs / len(both)
    return found_by(blocks + 1, pairs)


def crossing_visits(new: Sequence[str], old: References, estimates: Estimates, *, pairs: float) -> float:
    """Visits in a batch of a track that ends, from new rows of some references to old ones of others.

    Each of the references goes its own way through the others. Half of their blocks are old on average.
    """
    through = (len(new) - 1) * math.fsum(estimates.blocks(frozenset((alias,))) for alias in new)
    blocks = (through + len(new) * estimates.blocks(old)) / 2
    return found_by(blocks, pairs * estimates.statistics.batch_s)


def plan_visits(plan: Plan, estimates: Estimates) -> float:
    """Visits of a plan in a batch; 0 where it is not known how long a batch is."""
    if isinstance(plan, Probe):
        return math.fsum(_chain_visits(order, estimates) for order in plan.orders)
    return math.fsum(
        join_visits(frozenset(join.left.aliases), frozenset(join.right.aliases), estimates)
        for join in joins(plan)
    )


def rebuild_visits(left: References, right: References, estimates: Estimates, anew: set[References]) -> float:
    """Visits when a state is computed from its sides: every block of one meets every block of the other.

    Sides that were themselves computed `anew` are one block.
    """
    blocks = [1.0 if side in anew else estimates.blocks(side) for side in (left, right)]
    return found_by(blocks[0] * blocks[1], estimates.rows(left | right))


def spared_visits(state: References, estimates: Estimates) -> float:
    """Visits that a window of batches is spared because a state was computed anew, into one block."""
    blocks = estimates.blocks(state)
    pairs = estimates.rate(state) * estimates.statistics.batch_s
    return found_by(1.0, pairs) * max(0.0, blocks * (blocks - 1) / 2)


def _chain_visits(order: tuple[str, ...], estimates: Estimates) -> float:
    """Visits of one reference's new rows on their way through the others."""
    first, *others = order
    per_row = estimates.statistics.rates[first] * estimates.statistics.batch_s
    per_row /= estimates.rows(frozenset((first,)))
    reached, total = frozenset((first,)), 0.0
    for other in others:
        reached |= {other}
        total += found_by(estimates.blocks(frozenset((other,))), per_row * estimates.rows(reached))
    return total

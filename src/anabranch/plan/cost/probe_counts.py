"""Block probes: how often a batch's new rows meet a block of state and find something there.

A state is a number of blocks, and every join goes through those of both its sides, in every batch. A probe
that finds pairs in a block has a price of its own, however many it finds. So have a join that makes rows of
them, column by column, and a track that begins to work; both are counted in block probes here. With few rows
per batch this is most of what a track costs, and what a second track costs whatever its rows are. Which of
two trees is cheaper hardly depends on it, so that `plan_cost` leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.search.candidates import References
from anabranch.plan.tree import Plan, Probe, joins

JOIN = 8.0
"""Block probes that making rows is worth, in a join that finds any."""
TRACK = 15.0
"""Block probes that the rest of a track is worth, in a batch."""


def found_by(block_probes: float, pairs: float) -> float:
    """Of so many block probes, those that find something, when pairs fall on them at random.

    >>> found_by(10, 0), round(found_by(10, 10), 1), round(found_by(10, 1000), 1)
    (0.0, 6.3, 10.0)
    """
    return block_probes * (1 - math.exp(-pairs / block_probes)) if block_probes > 0 else 0.0


def join_block_probes(
    left: References, right: References, estimates: Estimates, *, filling: bool = False
) -> float:
    """Block probes of one join in a batch; `filling`, on average over the window in which its states fill.

    At time t < W a state over m references has (t/W)^m of its rows, and half of its blocks on average.
    """
    blocks = estimates.blocks(left) + estimates.blocks(right)
    if not blocks:
        return 0.0
    both = left | right
    pairs = estimates.rate(both) * estimates.statistics.batch_s
    if filling:
        blocks, pairs = blocks / 2, pairs / len(both)
    return found_by(blocks + 1, pairs) + JOIN * found_by(1.0, pairs)


def crossing_block_probes(
    new: Sequence[str], old: References, estimates: Estimates, *, pairs: float
) -> float:
    """Block probes in a batch of a track that ends, from new rows of some references to old ones of others.

    Each of the references goes its own way through the others. Half of their blocks are old on average.
    """
    through = (len(new) - 1) * math.fsum(estimates.blocks(frozenset((alias,))) for alias in new)
    blocks = (through + len(new) * estimates.blocks(old)) / 2
    found = pairs * estimates.statistics.batch_s
    return found_by(blocks, found) + JOIN * found_by(float(len(new) ** 2), found)


def plan_block_probes(plan: Plan, estimates: Estimates) -> float:
    """Block probes of a plan in a batch; 0 where it is not known how long a batch is."""
    if estimates.statistics.batch_s <= 0:
        return 0.0
    if isinstance(plan, Probe):
        return TRACK + math.fsum(_chain_block_probes(order, estimates) for order in plan.orders)
    return TRACK + math.fsum(
        join_block_probes(frozenset(join.left.aliases), frozenset(join.right.aliases), estimates)
        for join in joins(plan)
    )


def rebuild_block_probes(
    left: References, right: References, estimates: Estimates, anew: set[References]
) -> float:
    """Block probes when a state is computed from its sides: every block of one meets all blocks of the other.

    Sides that were themselves computed `anew` are one block.
    """
    blocks = [1.0 if side in anew else estimates.blocks(side) for side in (left, right)]
    if not (block_probes := blocks[0] * blocks[1]):
        return 0.0
    rows = estimates.rows(left | right)
    return found_by(block_probes, rows) + JOIN * found_by(1.0, rows)


def spared_block_probes(state: References, estimates: Estimates) -> float:
    """Block probes that a window of batches is spared because a state was computed anew, into one block."""
    blocks = estimates.blocks(state)
    pairs = estimates.rate(state) * estimates.statistics.batch_s
    return found_by(1.0, pairs) * max(0.0, blocks * (blocks - 1) / 2)


def _chain_block_probes(order: tuple[str, ...], estimates: Estimates) -> float:
    """Block probes of one reference's new rows on their way through the others."""
    first, *others = order
    per_row = estimates.statistics.rates[first] * estimates.statistics.batch_s
    per_row /= estimates.rows(frozenset((first,)))
    reached, total = frozenset((first,)), 0.0
    for other in others:
        reached |= {other}
        found = per_row * estimates.rows(reached)
        total += found_by(estimates.blocks(frozenset((other,))), found) + JOIN * found_by(1.0, found)
    return total

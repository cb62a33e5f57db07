"""The path of a unit: greedy weighted set covers, hop by hop, and who joins what (Gu, Yu, Wang, section 4.1).

Places and things are numbered from 0 on. All is compiled: a decision takes some microseconds, however many
things there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

EPSILON = 1e-9
"""So that of places without any load the one that covers most comes first."""


@njit(cache=True, nogil=True)
def cover(has: Any, needed: Any, before: Any, loads: Any, ranks: Any) -> Any:
    """Places that have all that is needed.

    Those of the hop before come first, as far as they have some of it: what is there need not travel.
    Then each time the one with the least load for each thing that it adds.

    Parameters
    ----------
    has
        By place and thing, whether it is there.
    needed
        By thing, how much it counts; what is not needed does not.
    ranks
        Places in the order in which they are taken instead, if they have any of it; empty otherwise.

    >>> has = np.array([[True, False, False], [True, True, False], [False, False, True]])
    >>> loads, nothing = np.array([0.1, 0.1, 5.0]), np.empty(0, dtype=np.int64)
    >>> cover(has, np.ones(3), nothing, loads, nothing).tolist()
    [1, 2]
    >>> cover(has, np.ones(3), np.array([0]), loads, nothing).tolist()
    [0, 1, 2]
    """
    left = needed > 0
    chosen = np.empty(len(has), dtype=np.int64)
    count = 0
    for place in ranks if len(ranks) else before:
        if _gain(has[place], left):
            chosen[count] = place
            count += 1
            left &= ~has[place]
    while left.any():
        best, least = -1, np.inf
        for place in range(len(has)):
            gain = _gain(has[place], left)
            if gain and (loads[place] + EPSILON) / gain < least:
                best, least = place, (loads[place] + EPSILON) / gain
        chosen[count] = best
        count += 1
        left &= ~has[best]
    return chosen[:count]


@njit(cache=True, nogil=True)
def _gain(has: Any, left: Any) -> Any:
    count = 0
    for thing in range(len(left)):
        count += has[thing] and left[thing]
    return count


@njit(cache=True, nogil=True)
def shared_out(has: Any, needed: Any, places: Any, loads: Any, total: Any, capacity: Any, work: float) -> Any:
    """One place for each thing that is needed, -1 for others, so that loads become as even as they can.

    Those with the fewest places to choose from choose first, each time the place with the least load.

    Parameters
    ----------
    places
        They cover what is needed.
    loads, total
        By place, of this hop and of all; what it is given is added.
    capacity
        By place, how much it can do.
    work
        What all of them add to the load.
    """
    owners = np.full(len(needed), -1)
    options = np.zeros(len(needed), dtype=np.int64)
    for place in places:
        options += has[place]
    each = work / max(1.0, needed.sum())
    for number in range(1, len(places) + 1):
        for thing in range(len(needed)):
            if needed[thing] > 0 and options[thing] == number:
                best = -1
                for place in places:
                    if has[place, thing] and (best < 0 or loads[place] < loads[best]):
                        best = place
                owners[thing] = best
                added = each * needed[thing] / capacity[best]
                loads[best] += added
                total[best] += added
    return owners


@njit(cache=True, nogil=True)
def filled_up(places: Any, loads: Any, is_lane: Any, number: int) -> Any:
    """Places, and the least loaded lanes beside them until there are so many lanes."""
    chosen = np.zeros(len(loads), dtype=np.bool_)
    for place in places:
        chosen[place] = True
    found = np.empty(len(loads), dtype=np.int64)
    found[: len(places)] = places
    count = len(places)
    while (chosen & is_lane).sum() < number:
        best = -1
        for place in range(len(loads)):
            if is_lane[place] and not chosen[place] and (best < 0 or loads[place] < loads[best]):
                best = place
        chosen[best] = True
        found[count] = best
        count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def decided(
    orders: Any,
    rows: Any,
    has: Any,
    needed: Any,
    loads: Any,
    loads_in: Any,
    is_lane: Any,
    warm_up: int,
    ranks: Any,
) -> Any:
    """The join order with the least overhead: its number, where rows are stored, covers, overhead.

    Covers lie one behind the other, with where each ends; all are empty where one is.

    Parameters
    ----------
    orders
        By order and hop, the stream that is probed.
    rows
        By order, rows that there are for one of the unit before each hop.
    has, needed
        By stream what `cover` takes.
    """
    hops = orders.shape[1]
    best, least = -1, np.inf
    best_stored = covers = np.empty(0, dtype=np.int64)
    ends = np.zeros(hops, dtype=np.int64)
    for number in range(len(orders)):
        found, its_ends = np.empty(hops * len(loads), dtype=np.int64), np.zeros(hops, dtype=np.int64)
        here, stored = found[:0], found[:0]
        count, overhead, is_whole = 0, 0.0, True
        for hop in range(hops):
            probed = orders[number, hop]
            after = cover(has[probed], needed[probed], here, loads_in[hop], ranks)
            is_whole &= len(after) > 0
            if hop == 0:
                stored = filled_up(after, loads, is_lane, warm_up)
                overhead = len(stored) - 1.0
            else:
                overhead += rows[number, hop] * travelling(here, after)
            found[count : count + len(after)] = after
            count += len(after)
            its_ends[hop] = count
            here = after
        if overhead < least:
            best, least, best_stored, ends = number, overhead, stored, its_ends
            covers = found[:count] if is_whole else found[:0]
    return best, best_stored, covers, ends, least


@njit(cache=True, nogil=True)
def travelling(here: Any, after: Any) -> float:
    """Places to which a row has to go on, that was made at any of `here`, to be at all of `after`.

    Equation 3 counts only places that are not among `here`. But a row that was made at one of these is not at
    the others, and has to meet the units there, too; sent as printed, results are lost.

    >>> travelling(np.array([1, 2]), np.array([1, 2])), travelling(np.array([1, 2]), np.array([3]))
    (1.0, 1.0)
    """
    common = 0
    for place in after:
        for other in here:
            common += place == other
    return len(after) - common / max(1, len(here))

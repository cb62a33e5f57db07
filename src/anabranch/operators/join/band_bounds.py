"""Between which keys the other value of a band lies, for each row that has one of the two.

Both ends are exact. A rounded difference falls, or stays, as the other number grows, so the definition
itself says by search where the interval ends: no expression is solved for the other number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.order_keys import doubles_of_keys, keys_of_doubles
from anabranch.plan.logical import Band

LEAST, MOST = -(2**63), 2**63 - 1
_INFINITY_KEY = int(keys_of_doubles(np.array([np.inf]))[0])


class Bounds(NamedTuple):
    """The first and the last key, for each row; none at all where the first is larger."""

    low: Int64s
    high: Int64s

    def within(self, other: Bounds) -> Bounds:
        """What lies between both."""
        return Bounds(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


def bounds_of(band: Band, keys: Int64s) -> Bounds:
    """Bounds of the keys on the right of a band, for each key on its left."""
    if band.rounding:
        return _rounded_bounds(band, keys)
    low, beyond = _moved(keys, 0 if band.high is None else -int(band.high), beyond=1)
    if band.high is None:
        low[:] = LEAST
    high, below = _moved(keys, 0 if band.low is None else -int(band.low), beyond=-1)
    if band.low is None:
        high[:] = MOST
    empty = beyond | below
    low[empty], high[empty] = MOST, LEAST
    return Bounds(low, high)


def _moved(keys: Int64s, by: int, *, beyond: int) -> tuple[Int64s, Any]:
    """Keys plus a number, or the end of all integers; and which are past the end in one direction."""
    moved = (keys.view(np.uint64) + np.uint64(by % 2**64)).view(np.int64)
    above = keys > MOST - by if by > 0 else np.zeros(len(keys), dtype=np.bool_)
    below = keys < LEAST - by if by < 0 else np.zeros(len(keys), dtype=np.bool_)
    moved[above], moved[below] = MOST, LEAST
    return moved, above if beyond > 0 else below


def _rounded_bounds(band: Band, keys: Int64s) -> Bounds:
    assert band.low is not None
    assert band.high is not None
    values = doubles_of_keys(keys)
    single = band.rounding == "float"
    below = np.nextafter(float(band.low), -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        firsts, lasts = (keys_of_doubles(values - limit) for limit in (float(band.high), below))
    low, high = np.full(len(keys), MOST), np.full(len(keys), LEAST)
    _search(values, firsts, lasts, (float(band.low), below, float(band.high)), single, low, high)
    return Bounds(low, high)


@njit(cache=True, nogil=True)
def _search(values: Any, firsts: Any, lasts: Any, limits: Any, single: bool, low: Any, high: Any) -> None:
    """Fill in the bounds of every number that has some, starting where they should be."""
    least, below, most = limits
    for i in range(len(values)):
        value = values[i]
        if np.isnan(value):
            continue
        if np.isinf(value):  # an infinite difference to all numbers but itself, to which it is NaN
            if value > 0 and most == np.inf:
                low[i], high[i] = -_INFINITY_KEY, _INFINITY_KEY - 1
            elif value < 0 and least == -np.inf:
                low[i], high[i] = -_INFINITY_KEY + 1, _INFINITY_KEY
            continue
        low[i] = -_INFINITY_KEY
        if most != np.inf:
            low[i] = _first_key(value, most, single, firsts[i])
        high[i] = _INFINITY_KEY
        if least != -np.inf:
            high[i] = _first_key(value, below, single, lasts[i]) - 1


@njit(cache=True, nogil=True)
def _first_key(value: float, limit: float, single: bool, guess: int) -> int:
    """The smallest number, as its key, whose difference from a finite value is at most the limit."""
    low = high = min(max(guess, -_INFINITY_KEY), _INFINITY_KEY)
    step = 1
    if _is_at_most(value, high, limit, single):
        while low > -_INFINITY_KEY and _is_at_most(value, low, limit, single):
            high = low
            low = low - step if low > step - _INFINITY_KEY else -_INFINITY_KEY
            step = min(2 * step, 1 << 62)
        if _is_at_most(value, low, limit, single):
            return low
    else:
        while not _is_at_most(value, high, limit, single):
            low = high
            high = high + step if high < _INFINITY_KEY - step else _INFINITY_KEY
            step = min(2 * step, 1 << 62)
    while high - low != 1:  # the limit holds at `high`, not at `low`
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        if _is_at_most(value, middle, limit, single):
            high = middle
        else:
            low = middle
    return high


@njit(cache=True, nogil=True)
def _is_at_most(value: float, key: int, limit: float, single: bool) -> bool:
    """The definition: a difference, rounded to its type, compared with the limit."""
    size = np.int64(abs(key)).view(np.float64)
    difference = value + size if key < 0 else value - size
    if single:
        difference = np.float64(np.float32(difference))
    return bool(difference <= limit)

"""Which attribute an entry of the index is found by: the one that few values satisfy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anabranch.operators.filter.entry_arrays import EntryArrays
from anabranch.operators.filter.kernel import IN_RANGE, IN_SET, NO_VALUE
from anabranch.operators.rows.arrays import Int64s

NULL_SHARE = 0.01
"""Of an attribute's values, how many are taken to be NULL."""
POINT_BONUS = 0.1
"""A single value is found with one look, an interval on the way through a tree."""

Shares = npt.NDArray[np.float64]


def choose_anchors(flat: EntryArrays, entries: int) -> Int64s:
    """By entry the check that it is found by, or -1.

    How many rows a check lets through is guessed from the constants of all entries: rows are taken to be
    spread as the constants are.
    """
    shares = _shares(flat)
    order = np.lexsort((shares, flat.entry))
    order = order[shares[order] < np.inf]
    entry, at = np.unique(flat.entry[order], return_index=True)
    anchor = np.full(entries, -1, dtype=np.int64)
    anchor[entry] = order[at]
    return anchor


def _shares(flat: EntryArrays) -> Shares:
    """Per check the share of rows that pass it, as a guess; infinite where no index finds it."""
    shares = np.full(len(flat.entry), np.inf)
    shares[flat.kind == NO_VALUE] = NULL_SHARE
    for attribute in range(len(flat.codings)):
        here = flat.attribute == attribute
        ranges = np.flatnonzero(here & (flat.kind == IN_RANGE))
        members = np.flatnonzero(here & (flat.kind == IN_SET))
        low, high = flat.low[ranges], flat.high[ranges]
        bounds = np.unique(np.concatenate([low, high]))
        width = np.searchsorted(bounds, high, "right") - np.searchsorted(bounds, low)
        shares[ranges] = width / (len(bounds) + 1)
        point = low == high
        in_sets = (flat.sets[flat.low[m] : flat.high[m]] for m in members)
        each = POINT_BONUS / (len(np.unique(np.concatenate([low[point], *in_sets]))) + 1)
        shares[ranges[point]] = each
        shares[members] = each * (flat.high[members] - flat.low[members])
    return shares

"""The kernels of the group filter: rows against an index, pairs of row and entry out.

A row finds candidates in the index of each anchor attribute, one attribute after the other. That index has a
table of values (`=`, IN), a segment tree of intervals, and a list for NULL. The tree is laid out as a heap
over the pieces of the number line between bounds::

                 1                    an interval hangs at the fewest nodes that make it up;
             2       3                a value meets those on the way from its piece to the root,
           4   5   6   7              and `nodes` skips those with nothing on them
    pieces 0   1   2   3

What else a candidate asks is compared then and there. Of a member with several entries the first that holds
is found: whoever comes later asks whether an earlier one does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

IN_RANGE, NO_VALUE, IN_SET, NOT_IN_SET = 0, 1, 2, 3
"""Kinds of checks. A range is from `low` to `high`; a set is at `low` to `high` in the array of sets."""
AHEAD = 1024
"""Rows whose places are looked up before the first of them is matched."""
MULTIPLIER = -7046029254386353131
"""Odd, with bits that spread consecutive keys: Fibonacci hashing."""


@njit(cache=True, nogil=True, inline="always")
def bucket_of(key: Any, shift: Any) -> Any:
    """Slot of a key in a table of 2 ** (64 - shift) slots."""
    return np.int64(np.uint64(key * np.int64(MULTIPLIER)) >> np.uint64(shift))


@njit(cache=True, nogil=True)
def _passes(
    checks: Any, bounds: Any, sets: Any, codes: Any, valid: Any, row: Any, first: Any, end: Any
) -> bool:
    """Whether a row passes some checks."""
    for i in range(first, end):
        attribute, kind = checks[i, 0], checks[i, 1]
        if kind == NO_VALUE:
            if valid[attribute, row]:
                return False
            continue
        if not valid[attribute, row]:
            return False
        value, low, high = codes[attribute, row], bounds[i, 0], bounds[i, 1]
        if kind == IN_RANGE:
            if value < low or value > high:
                return False
            continue
        place = low + np.searchsorted(sets[low:high], value)
        if (place < high and sets[place] == value) != (kind == IN_SET):
            return False
    return True


@njit(cache=True, nogil=True)
def _is_first(
    entries: Any,
    alive: Any,
    checks: Any,
    bounds: Any,
    sets: Any,
    codes: Any,
    valid: Any,
    row: Any,
    entry: Any,
) -> bool:
    """Whether no earlier entry of the same member holds for a row."""
    for sibling in range(entries[entry, 2], entry):
        start, end = entries[sibling, 1], entries[sibling + 1, 1]
        if alive[sibling] and _passes(checks, bounds, sets, codes, valid, row, start, end):
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _scan(
    start: Any,
    end: Any,
    row: Any,
    found: Any,
    codes: Any,
    valid: Any,
    postings: Any,
    ranges: Any,
    entries: Any,
    alive: Any,
    checks: Any,
    bounds: Any,
    sets: Any,
    out_rows: Any,
    out_entries: Any,
) -> Any:
    """Add the entries of a list that hold for a row; returns how many pairs there are, or -1 if no room."""
    last = postings[end - 1, 1]
    for p in range(start, end):
        checked = postings[p, 1]
        if checked >= 0:
            value = codes[checked, row]
            if value < ranges[p, 0] and checked == last:
                break  # the others begin further up
            if value < ranges[p, 0] or value > ranges[p, 1] or not valid[checked, row]:
                continue
        entry = postings[p, 0]
        if not alive[entry]:
            continue
        if postings[p, 2]:
            # The checks of an entry begin with its anchor and the one that lies beside it in the list.
            start_at = entries[entry, 0]
            if not _passes(checks, bounds, sets, codes, valid, row, start_at, entries[entry + 1, 1]):
                continue
        if entries[entry, 2] < entry and not _is_first(
            entries, alive, checks, bounds, sets, codes, valid, row, entry
        ):
            continue
        if found == len(out_rows):
            return -1
        out_rows[found] = row
        out_entries[found] = entry
        found += 1
    return found


@njit(cache=True, nogil=True)
def match_list(
    span: Any,
    wanted: Any,
    first: Any,
    codes: Any,
    valid: Any,
    order: Any,
    postings: Any,
    ranges: Any,
    entries: Any,
    alive: Any,
    checks: Any,
    bounds: Any,
    sets: Any,
    out_rows: Any,
    out_entries: Any,
) -> tuple[int, int]:
    """Match one list with all rows (`wanted` is -1), or those that have no value of the attribute `wanted`.

    All kernels take rows in the order of `order`, or as they come where it is empty, from `first` on; they
    return where to go on, and how many pairs there are. A row is found as a whole or not at all.
    """
    found = 0
    for i in range(first, codes.shape[1]):
        row = order[i] if len(order) else i
        if wanted >= 0 and valid[wanted, row]:
            continue
        after = _scan(
            span[0], span[1], row, found, codes, valid, postings, ranges, entries, alive, checks, bounds,
            sets, out_rows, out_entries,
        )  # fmt: skip
        if after < 0:
            return i, found
        found = after
    return codes.shape[1], found


@njit(cache=True, nogil=True)
def match_values(
    attribute: Any,
    base: Any,
    shift: Any,
    keys: Any,
    slots: Any,
    first: Any,
    codes: Any,
    valid: Any,
    order: Any,
    postings: Any,
    ranges: Any,
    entries: Any,
    alive: Any,
    checks: Any,
    bounds: Any,
    sets: Any,
    out_rows: Any,
    out_entries: Any,
) -> tuple[int, int]:
    """Match the table of an attribute's values: a slot for each from `base` on, or hashed (`shift` > 0)."""
    found = 0
    size = len(slots)
    values, known = codes[attribute], valid[attribute]
    for i in range(first, codes.shape[1]):
        row = order[i] if len(order) else i
        value = values[row]
        if shift < 0:
            place = value - base
            if value < base or place < 0 or place >= size:
                continue
        else:
            place = bucket_of(value, shift)
            while slots[place, 1] > 0 and keys[place] != value:
                place = (place + 1) & (size - 1)
        if slots[place, 1] == 0 or not known[row]:
            continue
        after = _scan(
            slots[place, 0], slots[place, 1], row, found, codes, valid, postings, ranges, entries, alive,
            checks, bounds, sets, out_rows, out_entries,
        )  # fmt: skip
        if after < 0:
            return i, found
        found = after
    return codes.shape[1], found


@njit(cache=True, nogil=True, inline="always")
def _piece(cuts: Any, cells: Any, shift: Any, halvings: Any, value: Any) -> Any:
    """Number of cuts that are no larger than a value; there is at least one.

    Without branches that depend on the value: they would be guessed wrongly half the time.
    """
    inside = min(max(value, cuts[0]), cuts[len(cuts) - 1])
    cell = np.int64((np.uint64(inside) - np.uint64(cuts[0])) >> np.uint64(shift))
    low, count = np.int64(cells[cell]), np.int64(cells[cell + 1]) - np.int64(cells[cell])
    for _ in range(halvings):
        half = (count + 1) >> 1
        low += half if cuts[max(low + half - 1, 0)] <= value else 0
        count -= half
    return low


@njit(cache=True, nogil=True, inline="always")
def _pieces(
    cuts: Any, cells: Any, shift: Any, halvings: Any, values: Any, order: Any, first: Any, pieces: Any
) -> Any:
    """Fill in the pieces of rows from place `first` on, as many as there is room for; returns the end.

    They are looked up ahead of what follows, so that the processor works on several at once.
    """
    end = min(first + len(pieces), len(values))
    for i in range(first, end):
        row = order[i] if len(order) else i
        pieces[i - first] = _piece(cuts, cells, shift, halvings, values[row])
    return end


@njit(cache=True, nogil=True)
def match_intervals(
    attribute: Any,
    cuts: Any,
    cells: Any,
    shift: Any,
    halvings: Any,
    nodes: Any,
    first: Any,
    codes: Any,
    valid: Any,
    order: Any,
    postings: Any,
    ranges: Any,
    entries: Any,
    alive: Any,
    checks: Any,
    bounds: Any,
    sets: Any,
    out_rows: Any,
    out_entries: Any,
) -> tuple[int, int]:
    """Match the segment tree of an attribute's intervals."""
    found = 0
    leaves = len(nodes) >> 1
    values, known = codes[attribute], valid[attribute]
    pieces = np.empty(AHEAD, dtype=np.int64)
    end = first
    for i in range(first, len(values)):
        if i == end:
            end = _pieces(cuts, cells, shift, halvings, values, order, i, pieces)
            begin = i
        row = order[i] if len(order) else i
        if not known[row]:
            continue
        began = found
        node = nodes[leaves + pieces[i - begin], 0]
        while node > 0:
            after = _scan(
                nodes[node, 1], nodes[node, 2], row, found, codes, valid, postings, ranges, entries, alive,
                checks, bounds, sets, out_rows, out_entries,
            )  # fmt: skip
            if after < 0:
                return i, began
            found = after
            node = nodes[node >> 1, 0]
    return len(values), found


@njit(cache=True, nogil=True)
def match_plain_intervals(
    attribute: Any,
    cuts: Any,
    cells: Any,
    shift: Any,
    halvings: Any,
    nodes: Any,
    first: Any,
    codes: Any,
    valid: Any,
    order: Any,
    postings: Any,
    alive: Any,
    out_rows: Any,
    out_entries: Any,
) -> tuple[int, int]:
    """The same for intervals that are all their entries ask, each the only entry of its member."""
    found: Any = 0
    room = len(out_rows)
    leaves = len(nodes) >> 1
    values, known = codes[attribute], valid[attribute]
    pieces = np.empty(AHEAD, dtype=np.int64)
    end = first
    for i in range(first, len(values)):
        if i == end:
            end = _pieces(cuts, cells, shift, halvings, values, order, i, pieces)
            begin = i
        row = order[i] if len(order) else i
        node = leaves + pieces[i - begin]
        start, after = nodes[node, 1], nodes[node, 2]
        if found + max(after - start, 1) > room:
            return i, found
        # Most rows meet one entry or none: both take the same way.
        entry = postings[start, 0]
        out_rows[found] = row
        out_entries[found] = entry
        began = found
        found += np.int64(after > start and known[row] and alive[entry])
        node = nodes[node >> 1, 0]
        if (after - start > 1 or node > 0) and known[row]:
            start += 1
            while True:
                if found + after - start > room:
                    return i, began
                for p in range(start, after):
                    entry = postings[p, 0]
                    out_rows[found] = row
                    out_entries[found] = entry
                    found += np.int64(alive[entry])
                if node == 0:
                    break
                start, after = nodes[node, 1], nodes[node, 2]
                node = nodes[node >> 1, 0]
    return len(values), found


@njit(cache=True, nogil=True)
def near_order(values: Any, splitters: Any, order: Any) -> None:
    """Rows by the part of the number line they are in: those that meet the same entries come together.

    `splitters`: the bounds of these parts, 2 ** n - 1 of them, ascending.
    """
    parts = np.empty(len(values), dtype=np.uint8)
    starts = np.zeros(257, dtype=np.int64)
    for i in range(len(values)):
        part, step = 0, (len(splitters) + 1) >> 1
        while step > 0:
            part += step if splitters[part + step - 1] <= values[i] else 0
            step >>= 1
        parts[i] = part
        starts[part + 1] += 1
    for part in range(256):
        starts[part + 1] += starts[part]
    for i in range(len(values)):
        order[starts[parts[i]]] = i
        starts[parts[i]] += 1

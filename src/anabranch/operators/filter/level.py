"""An index of conjunctions, built once and never changed; some of its entries may be dead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from anabranch.operators.filter.anchors import choose_anchors
from anabranch.operators.filter.coding import Coding
from anabranch.operators.filter.entry_arrays import EntryArrays, flatten
from anabranch.operators.filter.kernel import IN_RANGE, IN_SET, NO_VALUE, match_list, near_order
from anabranch.operators.filter.lists import FirstChecks, Lists, Spans
from anabranch.operators.filter.segment_tree import SegmentTree
from anabranch.operators.filter.value_table import ValueTable
from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.column_codes import Flags, validity
from anabranch.plan.predicate import Conjunction

Pairs = tuple[Rows32, Rows32]
"""Rows and entries."""
SLICE_ROWS = 1 << 16
"""Rows that are coded and matched at a time."""
_AS_THEY_COME = np.empty(0, dtype=np.int32)


class Index(Protocol):
    """Where rows find entries by one attribute, or all of them."""

    @property
    def attribute(self) -> int: ...

    @property
    def splitters(self) -> Int64s:
        """Values that cut rows into parts that meet the same entries; none where all entries are near."""

    def match(self, first: int, *rows_and_room: Any) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True, eq=False)
class OneList:
    """Entries that every row meets, or each that has no value of an attribute."""

    attribute: int
    span: Spans
    splitters: Int64s

    def match(self, first: int, *rows_and_room: Any) -> tuple[int, int]:
        """Match rows from the one at place `first` on."""
        found: tuple[int, int] = match_list(self.span, self.attribute, first, *rows_and_room)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Conjunctions of some members, indexed.

    Attributes
    ----------
    conjunctions, members
        What was indexed, and whose it is; entry i is conjunction i.
    alive
        By entry whether its member is still there.
    rests, rest_of
        What conjunctions ask beside their constraints, as SQL, each once; and by entry which of them, or -1.
    asks_more
        By entry whether its member has a rest in some conjunction.
    """

    conjunctions: tuple[Conjunction, ...]
    members: Rows32
    alive: Flags
    rests: tuple[str, ...]
    rest_of: Int64s
    asks_more: Flags
    attributes: tuple[str, ...]
    codings: tuple[Coding, ...]
    indexes: tuple[Index, ...]
    lists: tuple[Any, ...]
    """Postings, their ranges, and entries, as the kernels take them."""
    checks: tuple[Any, ...]
    """Checks, their bounds, and sets."""

    @classmethod
    def of(
        cls, conjunctions: Sequence[Conjunction], members: Sequence[int], types: Mapping[str, pa.DataType]
    ) -> Level:
        """Build the index; the conjunctions of a member lie side by side."""
        used = {c.attribute for both in conjunctions for c in both.constraints}
        kinds = {name: kind for name, kind in types.items() if name in used}
        flat = flatten(conjunctions, kinds)
        owners = np.array(members, dtype=np.int32)
        alive = np.ones(len(conjunctions), dtype=np.bool_)
        alive[list(flat.dead)] = False
        rests, rest_of = _rests(conjunctions)
        anchor = choose_anchors(flat, len(owners))
        order, starts, first = _checks(flat, anchor)
        lists = Lists(first)
        bounds = np.searchsorted(flat.entry, np.arange(len(owners) + 1))
        begin, asks_more = _siblings(owners, rest_of >= 0)
        # What one entry finds may still fall to its rest, and then another must be found.
        siblings = np.where(asks_more, np.arange(len(owners)), begin)
        plain = (first.attribute < 0) & ~first.more & (siblings == np.arange(len(owners)))
        indexes = tuple(_indexes(flat, anchor, np.flatnonzero(alive), plain, lists))
        entries = np.stack([np.append(starts, 0), bounds, np.append(siblings, 0)], axis=1).astype(np.int32)
        return cls(
            tuple(conjunctions),
            owners,
            alive,
            rests,
            rest_of,
            asks_more,
            tuple(kinds),
            flat.codings,
            indexes,
            (*lists.laid_out(), entries),
            (
                np.stack([flat.attribute[order], flat.kind[order]], axis=1).astype(np.int32),
                np.stack([flat.low[order], flat.high[order]], axis=1),
                flat.sets,
            ),
        )

    def __len__(self) -> int:
        return len(self.conjunctions)

    def matches(self, columns: Mapping[str, pa.Array], rows: int, *, most: int) -> Iterator[Iterator[Pairs]]:
        """Pairs of row and entry whose constraints hold: an iterator for each slice of the rows.

        A piece has at most `most` pairs, unless one row has more.
        """
        for start in range(0, rows, SLICE_ROWS):
            size = min(SLICE_ROWS, rows - start)
            yield self._in_slice(
                {n: columns[n].slice(start, size) for n in self.attributes}, start, size, most
            )

    def _in_slice(self, columns: Mapping[str, pa.Array], start: int, size: int, most: int) -> Iterator[Pairs]:
        codes, valid = self._coded(columns, size)
        for index in self.indexes:
            order = _AS_THEY_COME
            if len(index.splitters):
                order = np.empty(size, dtype=np.int32)
                near_order(codes[index.attribute], index.splitters, order)
            room, at = most, 0
            while at < size:
                out = np.empty(room, np.int32), np.empty(room, np.int32)
                after, found = index.match(
                    at, codes, valid, order, *self.lists, self.alive, *self.checks, *out
                )
                if found:
                    yield out[0][:found] + np.int32(start), out[1][:found]
                elif after == at:  # one row has more than there is room for
                    room *= 2
                at = after

    def _coded(self, columns: Mapping[str, pa.Array], size: int) -> tuple[Int64s, Flags]:
        codes = np.empty((len(self.attributes), size), dtype=np.int64)
        valid = np.ones((len(self.attributes), size), dtype=np.bool_)
        for i, name in enumerate(self.attributes):
            codes[i] = self.codings[i].codes(columns[name])
            if columns[name].null_count:
                valid[i] = validity(columns[name])
        return codes, valid


def _rests(conjunctions: Sequence[Conjunction]) -> tuple[tuple[str, ...], Int64s]:
    texts = [" AND ".join(f"({sql})" for sql in c.rest) for c in conjunctions]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(filter(None, texts)))}
    return tuple(numbers), np.array([numbers.get(text, -1) for text in texts], dtype=np.int64)


def _siblings(members: Rows32, has_rest: Flags) -> tuple[Int64s, Flags]:
    """By entry the first of its member's, and whether one of these has a rest."""
    if not len(members):
        return np.empty(0, np.int64), has_rest
    begins = np.flatnonzero(np.append(True, members[1:] != members[:-1]))
    run = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(members))))
    return begins[run], np.logical_or.reduceat(has_rest, begins)[run]


def _checks(flat: EntryArrays, anchor: Int64s) -> tuple[Int64s, Int64s, FirstChecks]:
    """The order of checks, where each entry's further ones begin, and those that lie beside the entries.

    The checks of an entry are its anchor, then the range that lies beside it, then the others.
    """
    entries = len(anchor)
    rank = np.full(len(flat.entry), 2, dtype=np.int64)
    ranges = np.flatnonzero(flat.kind == IN_RANGE)
    ranges = ranges[~np.isin(ranges, anchor)]
    entry, at = np.unique(flat.entry[ranges], return_index=True)
    beside = ranges[at]
    rank[beside] = 1
    rank[anchor[anchor >= 0]] = 0
    order = np.lexsort((rank, flat.entry))
    bounds = np.searchsorted(flat.entry, np.arange(entries + 1))
    starts = bounds[:-1] + (anchor >= 0)
    starts[entry] += 1
    found = np.full((3, entries), -1, dtype=np.int64)
    found[:, entry] = flat.attribute[beside], flat.low[beside], flat.high[beside]
    return order, starts, FirstChecks(found[0], found[1], found[2], starts < bounds[1:])


def _indexes(flat: EntryArrays, anchor: Int64s, alive: Int64s, plain: Flags, lists: Lists) -> Iterator[Index]:
    """Tables, trees and lists of all attributes, and the list of entries that nothing leads to.

    `plain`: by entry whether it asks for nothing but its anchor.
    """
    anchor = anchor[alive]
    if len(free := alive[anchor < 0]):
        yield OneList(-1, lists.add(np.zeros_like(free), free, count=1)[0], np.empty(0, np.int64))
    anchor = anchor[anchor >= 0]
    for attribute in range(len(flat.codings)):
        here = anchor[flat.attribute[anchor] == attribute]
        kind, point = flat.kind[here], flat.low[here] == flat.high[here]
        single = (kind == IN_SET) | ((kind == IN_RANGE) & point)
        if len(checks := here[single]):
            yield ValueTable.of(attribute, flat, checks, lists)
        if len(checks := here[(kind == IN_RANGE) & ~point]):
            is_plain = bool(plain[flat.entry[checks]].all())
            yield SegmentTree.of(attribute, flat, checks, lists, is_plain=is_plain)
        if len(checks := here[kind == NO_VALUE]):
            entries = flat.entry[checks]
            span = lists.add(np.zeros_like(entries), entries, count=1)[0]
            yield OneList(attribute, span, np.empty(0, np.int64))

"""The group filter: all members' predicates as one index.

Entries live in levels, each an index that is never changed. A new predicate goes to the smallest level, which
is built anew; a level that has grown as large as the next is merged into it. So adding one of n predicates
costs about log n entries built, and never all of them (the logarithmic method of Bentley and Saxe). One that
leaves is marked dead, and gone when its level is next built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.filter.level import Level, Pairs
from anabranch.operators.rows.arrays import Rows32
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.expressions import BAD_VALUE, where
from anabranch.plan.predicate import Conjunction, Predicate

Bad = Callable[[int, Exception], None]
"""Takes a member, and what its rest has raised."""
PIECE_PAIRS = 1 << 20
"""Pairs that are found at a time."""
SMALLEST = 512
"""Entries of the level that new predicates go to."""
RATIO = 4
"""How much larger a level is than the one before it, at least."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of row and member: the predicate of the member holds for the row. No pair is there twice."""

    rows: Rows32
    members: Rows32

    def __len__(self) -> int:
        return len(self.rows)

    def by_member(self) -> Iterator[tuple[int, Rows32]]:
        """Each member that has rows, and these, ascending."""
        order = np.argsort(self.members, kind="stable")
        members, rows = self.members[order], self.rows[order]
        found, starts = np.unique(members, return_index=True)
        for member, start, end in zip(found.tolist(), starts, np.append(starts[1:], len(rows)), strict=False):
            yield member, np.sort(rows[start:end])


class GroupFilter:
    """Predicates of members, which are numbered as the caller likes.

    Parameters
    ----------
    types
        Attributes that predicates may be about, and what type each has.

    Examples
    --------
    >>> from anabranch.plan.predicate import Between
    >>> filters = GroupFilter({"price": pa.int64()})
    >>> filters.add(7, Predicate((Conjunction((Between("price", 10, 20),)),)))
    >>> rows = pa.table({"price": [5, 15, None, 20]})
    >>> [(m.rows.tolist(), m.members.tolist()) for m in filters.matches(rows)]
    [([1, 3], [7, 7])]
    """

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = dict(types)
        self._levels: list[Level] = []
        """Largest first."""
        self._fresh: dict[int, Predicate] = {}
        """Members that are in no level yet."""
        self._members: set[int] = set()
        self.built = 0
        """Entries that levels were built of, in all: what coming and going has cost."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: int) -> bool:
        return member in self._members

    def add(self, member: int, predicate: Predicate) -> None:
        """Let a member in."""
        self.add_all([(member, predicate)])

    def add_all(self, members: Iterable[tuple[int, Predicate]]) -> None:
        """Let many members in at once."""
        for member, predicate in members:
            if member in self._members:
                raise ValueError(f"member {member} has a predicate already: remove that first")
            if unknown := predicate.attributes - self._types.keys():
                raise ValueError(f"no attribute {sorted(unknown)[0]!r}: there are {', '.join(self._types)}")
            self._fresh[member] = predicate
            self._members.add(member)

    def remove(self, member: int) -> None:
        """Let a member go."""
        self._members.remove(member)
        if self._fresh.pop(member, None) is not None:
            return
        for level in self._levels:
            level.alive[level.members == member] = False
        alive = sum(int(level.alive.sum()) for level in self._levels)
        if alive < sum(map(len, self._levels)) // 2:
            self._build([*self._levels])

    def matches(
        self, rows: pa.Table | pa.RecordBatch, *, most: int = PIECE_PAIRS, bad: Bad | None = None
    ) -> Iterator[Matches]:
        """Pairs of row and member, in pieces of at most about `most`.

        Parameters
        ----------
        rows
            A column for each attribute, and those that the rests of predicates read.
        bad
            Told of a member whose rest has no value for some row; without it, the error is raised.
        """
        self._settle()
        names = {name for level in self._levels for name in level.attributes}
        columns = {name: _whole(rows, name) for name in names}
        for level in self._levels:
            for pieces in level.matches(columns, rows.num_rows, most=most):
                yield from _judged(level, rows, pieces, bad)

    def _settle(self) -> None:
        """Put new members into levels."""
        if not self._fresh:
            return
        small = [level for level in self._levels if len(level) < SMALLEST]
        size = sum(map(len, small)) + sum(len(p.any_of) for p in self._fresh.values())
        merged = list(small)
        for level in reversed(self._levels):
            if len(level) >= SMALLEST <= size and len(level) <= RATIO * size:
                merged.append(level)
                size += len(level)
        self._build(merged)

    def _build(self, merged: list[Level]) -> None:
        """Build one level of some, without their dead entries, and of all new members."""
        conjunctions: list[Conjunction] = []
        members: list[int] = []
        for level in merged:
            for entry in np.flatnonzero(level.alive).tolist():
                conjunctions.append(level.conjunctions[entry])
                members.append(int(level.members[entry]))
        for member, predicate in self._fresh.items():
            conjunctions += predicate.any_of
            members += [member] * len(predicate.any_of)
        self._fresh = {}
        self.built += len(conjunctions)
        kept = [level for level in self._levels if not any(level is other for other in merged)]
        if conjunctions:
            kept.append(Level.of(conjunctions, members, self._types))
        self._levels = sorted(kept, key=len, reverse=True)


def _whole(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    column = rows.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _judged(
    level: Level, rows: pa.Table | pa.RecordBatch, pieces: Iterable[Pairs], bad: Bad | None
) -> Iterator[Matches]:
    """Pairs whose rests hold, too: these are evaluated on the rows of candidates only.

    Candidates with a rest are gathered over a slice of the rows, for a member may be found twice.
    """
    waiting: list[Pairs] = []
    for at, entries in pieces:
        if not level.rests:
            yield Matches(at, level.members[entries])
            continue
        open_ones = level.asks_more[entries]
        waiting.append((at[open_ones], entries[open_ones]))
        if not open_ones.all():
            yield Matches(at[~open_ones], level.members[entries[~open_ones]])
    if waiting:
        at, entries = (np.concatenate(column) for column in zip(*waiting, strict=True))
        holds = _holding(level, rows, at, entries, bad)
        pairs = np.unique(at[holds].astype(np.int64) << 32 | level.members[entries[holds]])
        yield Matches((pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32))


def _holding(
    level: Level, rows: pa.Table | pa.RecordBatch, at: Rows32, entries: Rows32, bad: Bad | None
) -> Flags:
    number = level.rest_of[entries]
    holds = number < 0
    for which in np.unique(number[~holds]).tolist():
        candidates = np.flatnonzero(number == which)
        try:
            holds[candidates] = _true_for(rows, at[candidates], level.rests[which])
        except BAD_VALUE:
            if bad is None:
                raise
            members = level.members[entries[candidates]]
            for member in np.unique(members).tolist():  # one of them has the row, the others may go on
                its = candidates[members == member]
                try:
                    holds[its] = _true_for(rows, at[its], level.rests[which])
                except BAD_VALUE as error:
                    holds[its] = False
                    bad(member, error)
    return holds


def _true_for(rows: pa.Table | pa.RecordBatch, at: Rows32, rest: str) -> Flags:
    """For which of some rows, that may be there repeatedly, a rest is true."""
    distinct, place = np.unique(at, return_inverse=True)
    found: Flags = where(pa.table(rows.take(pa.array(distinct))), rest)[place]
    return found

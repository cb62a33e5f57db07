"""Aligned routing (ATR): rows of the master go by segments, rows of the slaves to all partitions they may
meet them in.

A master row goes to the partition of its segment. A row of slave i at time t may meet master rows of `[t -
W_M, t + W_i]`: it goes to the *set* of partitions of these segments, one copy each. Every result has one
master row, which is in one partition, and the other rows of the result are there, too. So a partition emits
what meets in it, and nothing is found twice.

**Another master.** From M to N at t_s, a result belongs to M's segments if its M row is before t_s, else to
N's. The two *reigns* have partitions of their own, and routing alone keeps their results apart:

    reign of M   master rows before t_s only             so its results have an M row before t_s
    reign of N   segments from t_s - W_N on;             so its results have an M row from t_s on, and with it
                 rows of M before t_s are left out       an N row from t_s - W_N on

The marks of the paper, as printed, lose rows where segments are shorter than windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import at_partition_sql
from anabranch.exchange.partition_set import PartitionSet, union
from anabranch.exchange.router import Case, Placed, WireNames, WireRows
from anabranch.exchange.segments import Segments
from anabranch.plan.inputs import RoutedQuery

Int64s = npt.NDArray[np.int64]
FAR = 1 << 60
"""Later than every event time, and still without overflow when windows are added."""
CHUNK = 4096
"""Kinds of rows for which copies are worked out at a time."""


@dataclass(frozen=True, slots=True)
class Member:
    """A reference of the query: its input and its window."""

    alias: str
    input: int
    window_us: int


def members_of(routed: RoutedQuery) -> tuple[Member, ...]:
    """The references of a query."""
    return tuple(Member(r.alias, routed.input_of(r.alias), r.window_us) for r in routed.query.refs)


@dataclass(frozen=True, slots=True)
class Reign:
    """A master with its segments, from `begin` to before `end`."""

    master: str
    segments: Segments
    begin: int = 0
    end: int = FAR

    def to_json(self) -> list[Any]:
        return [self.master, self.segments.to_json(), self.begin, self.end]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Reign:
        return cls(data[0], Segments.from_json(data[1]), data[2], data[3])


@dataclass(frozen=True, slots=True)
class AlignedTable:
    """The reigns that still matter, in their order; the last one goes on."""

    reigns: tuple[Reign, ...]

    @classmethod
    def single(cls, master: str, length: int, cycle: Sequence[int]) -> AlignedTable:
        return cls((Reign(master, Segments.cycling(length, cycle)),))

    @property
    def current(self) -> Reign:
        return self.reigns[-1]

    def used(self) -> PartitionSet:
        """All partitions in which rows of the query may be."""
        return union(reign.segments.used() for reign in self.reigns)

    def continued(self, free_from: int, *, length: int, cycle: Sequence[int]) -> AlignedTable:
        """Other segments behind all that are in use (`Segments.continued`)."""
        current = self.current
        begin = max(free_from, current.segments.last.start)
        segments = current.segments.continued(begin, length=length, cycle=cycle)
        return AlignedTable((*self.reigns[:-1], replace(current, segments=segments)))

    def switched(self, master: Member, at: int, *, length: int, cycle: Sequence[int]) -> AlignedTable:
        """Another master from a time on, in partitions that no reign uses."""
        begin = at - master.window_us
        reign = Reign(master.alias, Segments.cycling(length, cycle, begin), begin)
        if reign.segments.used() & self.used():
            raise ValueError("reigns have partitions of their own")
        return AlignedTable((*self.reigns[:-1], replace(self.current, end=at), reign))

    def without_before(self, bound_of: Mapping[str, int]) -> AlignedTable:
        """This table without reigns and runs that no row needs any more.

        Parameters
        ----------
        bound_of
            By master: a segment that ends before or at this time may go.
        """
        *ended, current = self.reigns
        kept = [reign for reign in ended if reign.end > bound_of[reign.master]]
        segments = current.segments.without_before(bound_of[current.master])
        return AlignedTable((*kept, replace(current, segments=segments)))

    def opened(self) -> AlignedTable:
        """This table where nobody else has earlier rows: late ones have a place, too, to be counted."""
        return AlignedTable((replace(self.reigns[0], begin=0), *self.reigns[1:]))

    def to_json(self) -> list[Any]:
        return [reign.to_json() for reign in self.reigns]

    @classmethod
    def from_json(cls, data: Iterable[Any]) -> AlignedTable:
        return cls(tuple(map(Reign.from_json, data)))


@dataclass(frozen=True, slots=True)
class AlignedRouter:
    """Routes the rows of one query by its table."""

    members: tuple[Member, ...]
    table: AlignedTable

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(member.input for member in self.members)

    def placed(self, rows: WireRows) -> Placed:
        return Placed.together([self._placed(member, rows) for member in self.members])

    def _placed(self, member: Member, rows: WireRows) -> Placed:
        mine = rows.of_input(member.input)
        which, partitions = self.copies(member, rows.times[mine])
        copied = mine[which]
        return Placed(copied, rows.tags[copied], rows.addresses[copied], partitions)

    def copies(self, member: Member, times: Int64s) -> tuple[Int64s, Int64s]:
        """(position of a row, partition) for every copy, row by row."""
        pairs = [self._copies_in(number, member, times) for number in range(len(self.table.reigns))]
        which = np.concatenate([w for w, _ in pairs])
        partitions = np.concatenate([p for _, p in pairs])
        order = np.argsort(which, kind="stable")
        return which[order], partitions[order]

    def _copies_in(self, number: int, member: Member, times: Int64s) -> tuple[Int64s, Int64s]:
        """Copies that a reign gets."""
        reign = self.table.reigns[number]
        low, high = self._reach(reign, member)
        wanted = (times + high >= reign.begin) & (times - low < reign.end)
        wanted &= times >= self._left_out_before(number, member)
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return rows, np.empty(0, dtype=np.int64)
        segments = reign.segments
        first = segments.numbers(np.maximum(times[rows] - low, reign.begin))
        last = segments.numbers(np.minimum(times[rows] + high, reign.end - 1))
        most = int((last - first).max()) + 1
        kinds, mine = np.unique(first * most + (last - first), return_inverse=True)
        which, partitions = _sets(segments, np.stack([kinds // most, kinds // most + kinds % most]))
        # Copies of each kind of row, for every row of the kind.
        counts = np.bincount(which, minlength=len(kinds))
        begins = np.cumsum(counts) - counts
        total = counts[mine]
        offsets = np.arange(total.sum()) - np.repeat(np.cumsum(total) - total, total)
        return np.repeat(rows, total), partitions[np.repeat(begins[mine], total) + offsets]

    def _reach(self, reign: Reign, member: Member) -> tuple[int, int]:
        """How far before and behind its own time a row may find master rows."""
        if member.alias == reign.master:
            return 0, 0
        master = next(m for m in self.members if m.alias == reign.master)
        return master.window_us, member.window_us

    def _left_out_before(self, number: int, member: Member) -> int:
        """Rows of a former master before its end belong to its reign, not to later ones."""
        former = (r.end for r in self.table.reigns[:number] if r.master == member.alias)
        return max(former, default=0)

    def cases(self, names: WireNames) -> list[Case]:
        when = {member: names.is_input(member.input) for member in self.members}
        if len(used := self.table.used()) == 1:  # nothing is copied
            address = at_partition_sql(str(*used), names.address)
            return [Case(when[member], names.tag, address) for member in self.members]
        return [
            Case(when[member], names.tag, names.address, self.partitions_sql(member, names.time))
            for member in self.members
        ]

    def partitions_sql(self, member: Member, time: str) -> str:
        """Spark SQL for the partitions that a row of a reference goes to, as an array."""
        arrays = [self._array_sql(number, member, time) for number in range(len(self.table.reigns))]
        return arrays[0] if len(arrays) == 1 else f"concat({', '.join(arrays)})"

    def _array_sql(self, number: int, member: Member, time: str) -> str:
        reign = self.table.reigns[number]
        low, high = self._reach(reign, member)
        segments = reign.segments
        first = segments.number_sql(f"greatest({time} - {low}L, {reign.begin}L)")
        if member.alias == reign.master:
            found = f"array({segments.partition_sql(first)})"
        else:
            last = segments.number_sql(f"least({time} + {high}L, {reign.end - 1}L)")
            each = segments.partition_sql("segment")
            found = f"array_sort(array_distinct(transform(sequence({first}, {last}), segment -> {each})))"
        if len(self.table.reigns) == 1 and (reign.begin, reign.end) == (0, FAR):
            return found
        wanted = (
            f"{time} + {high}L >= {reign.begin}L AND {time} - {low}L < {reign.end}L "
            f"AND {time} >= {self._left_out_before(number, member)}L"
        )
        return f"IF({wanted}, {found}, CAST(array() AS ARRAY<INT>))"


def _sets(segments: Segments, kinds: Int64s) -> tuple[Int64s, Int64s]:
    """(number of a kind, partition): of each range of segments its partitions, once and in order."""
    which, partitions = [], []
    for begin in range(0, kinds.shape[1], CHUNK):
        first, last = kinds[:, begin : begin + CHUNK]
        most = int((last - first).max()) + 1
        numbers = np.minimum(first[:, None] + np.arange(most), last[:, None])
        found = np.sort(segments.partitions(numbers.ravel()).reshape(numbers.shape), axis=1)
        distinct = np.ones(found.shape, dtype=np.bool_)
        distinct[:, 1:] = found[:, 1:] != found[:, :-1]
        kind, position = np.nonzero(distinct)
        which.append(kind + begin)
        partitions.append(found[kind, position])
    return np.concatenate(which), np.concatenate(partitions)

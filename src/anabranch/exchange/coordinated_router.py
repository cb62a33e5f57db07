"""Coordinated routing of a batch: rows go to the places where their unit is stored.

A segment is a set of slices of time, spread over all time: however long a batch turns out to be, its segments
have about as many rows. The number of its unit is in the address of a row, below the partition. So rows of a
unit lie side by side in a block, and those that travel know where they come from.

While a join changes between aligned and coordinated routing, its results are shared out by the time of one
reference, the *gate* (`Gate`): a row goes to both if it may belong to results of both. What is aligned then
has partitions of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import BELOW_PARTITION, Addresses
from anabranch.exchange.aligned_router import FAR, AlignedRouter, Member
from anabranch.exchange.coordinated_table import SEGMENT_BITS, Path, unit_number
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.router import Case, Placed, WireNames, WireRows

Int64s = npt.NDArray[np.int64]
_BELOW = np.uint64((1 << BELOW_PARTITION) - 1)


def units_of(addresses: Addresses) -> Int64s:
    """The unit of each row."""
    found: Int64s = (addresses.view(np.uint64) & _BELOW).view(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class Gate:
    """Which results are coordinated: those whose rows of two references are from a time on, and before one.

    Attributes
    ----------
    opened, closed
        Reference and time; None where there is no such bound.
    """

    opened: tuple[str, int] | None = None
    closed: tuple[str, int] | None = None

    def bounds(self, member: Member, members: Sequence[Member]) -> tuple[int, int]:
        """From when on, and before when, rows of a reference may belong to such a result."""
        begin, end = 0, FAR
        if self.opened is not None:
            alias, at = self.opened
            begin = at if member.alias == alias else at - member.window_us
        if self.closed is not None:
            alias, at = self.closed
            gate = next(m for m in members if m.alias == alias)
            end = at if member.alias == alias else at + gate.window_us
        return begin, end


ALWAYS = Gate()


@dataclass(frozen=True, slots=True)
class Routes:
    """Where the units of a batch go.

    Attributes
    ----------
    length
        Of a slice of time, in microseconds.
    paths
        By reference and segment.
    """

    batch: int
    length: int
    paths: Mapping[str, tuple[Path, ...]]
    gate: Gate = field(default=ALWAYS)

    @property
    def hops(self) -> int:
        """How often rows of the batch are joined and go on."""
        return max((len(path.hops) for paths in self.paths.values() for path in paths), default=0)

    def path_of(self, alias: str, unit: int) -> Path:
        """The path of a unit of this batch."""
        return self.paths[alias][unit & ((1 << SEGMENT_BITS) - 1)]

    def stored(self) -> PartitionSet:
        """All places where rows of the batch are stored."""
        return PartitionSet.of(p for paths in self.paths.values() for path in paths for p in path.places)

    def segments(self, alias: str, times: Int64s) -> Int64s:
        """The segment of each row."""
        slices = times // self.length
        found: Int64s = (slices ^ (slices >> 7) ^ (slices >> 17)) % len(self.paths[alias])
        return found

    def segment_sql(self, alias: str, time: str) -> str:
        """Spark SQL for the same."""
        slices = f"({time} div {self.length}L)"
        mixed = f"({slices} ^ shiftright({slices}, 7) ^ shiftright({slices}, 17))"
        return f"CAST(pmod({mixed}, {len(self.paths[alias])}L) AS INT)"


@dataclass(frozen=True, slots=True)
class CoordinatedRouter:
    """Routes the rows of one query by the paths of their units.

    Attributes
    ----------
    aligned
        What results have beside it that are not coordinated yet, or not any more.
    """

    members: tuple[Member, ...]
    routes: Routes
    aligned: AlignedRouter | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(member.input for member in self.members)

    def placed(self, rows: WireRows) -> Placed:
        return Placed.together([self._placed(member, rows) for member in self.members])

    def _placed(self, member: Member, rows: WireRows) -> Placed:
        mine = rows.of_input(member.input)
        times = rows.times[mine]
        segments = self.routes.segments(member.alias, times)
        which, partitions = self._stored(member, times, segments)
        if self.aligned is not None:
            others, theirs = self.aligned.copies(member, times)
            which, partitions = np.concatenate([which, others]), np.concatenate([partitions, theirs])
            order = np.argsort(which, kind="stable")
            which, partitions = which[order], partitions[order]
        addresses = unit_number(self.routes.batch, 0) + segments
        copied = mine[which]
        return Placed(copied, rows.tags[copied], addresses[which], partitions)

    def _stored(self, member: Member, times: Int64s, segments: Int64s) -> tuple[Int64s, Int64s]:
        """(position of a row, partition) for every place of its unit, row by row."""
        places = [np.array(path.places, dtype=np.int64) for path in self.routes.paths[member.alias]]
        begin, end = self.routes.gate.bounds(member, self.members)
        rows = np.flatnonzero((times >= begin) & (times < end)) if self.aligned else np.arange(len(times))
        counts = np.array([len(p) for p in places])[segments[rows]]
        begins = np.cumsum([0, *map(len, places)])[:-1][segments[rows]]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(rows, counts), np.concatenate(places)[np.repeat(begins, counts) + offsets]

    def cases(self, names: WireNames) -> list[Case]:
        return [self._case(member, names) for member in self.members]

    def _case(self, member: Member, names: WireNames) -> Case:
        segment = self.routes.segment_sql(member.alias, names.time)
        # One text constant, which Spark folds: hundreds of literals would have to be analysed.
        table = ";".join(",".join(map(str, p.places)) for p in self.routes.paths[member.alias])
        places = f"CAST(split(get(split('{table}', ';'), {segment}), ',') AS ARRAY<INT>)"
        if self.aligned is not None:
            begin, end = self.routes.gate.bounds(member, self.members)
            inside = f"{names.time} >= {begin}L AND {names.time} < {end}L"
            places = f"IF({inside}, {places}, CAST(array() AS ARRAY<INT>))"
            places = f"concat({places}, {self.aligned.partitions_sql(member, names.time)})"
        address = f"({unit_number(self.routes.batch, 0)}L + {segment})"
        return Case(names.is_input(member.input), names.tag, address, places)

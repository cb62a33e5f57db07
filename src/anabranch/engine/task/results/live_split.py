"""The members of a group as a worker knows them: one index, kept up to date as members come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.columns import quoted_names
from anabranch.plan.logical import Member, Output, Query, Split, column_name

SHORT = 1 << 15
GROWTH = 1.5
"""How much longer arrays by member become when they are full."""


@dataclass(frozen=True, slots=True)
class Projection:
    """How rows of members are made: members that select alike have the same."""

    outputs: tuple[Output, ...]
    columns: tuple[str, ...]
    """Those of the representative's that outputs are made of."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Members whose rows are made alike and go to one file."""

    query: Query
    """Any of them."""
    projection: int


class LiveSplit:
    """How the results of a representative are split, now.

    Attributes
    ----------
    members
        By number; numbers of those that have left are not used again.
    channels, projections
        What is written apart, and what is made apart.
    """

    def __init__(self, split: Split) -> None:
        self.times, self.arrived = split.times, split.arrived
        kinds = {name: arrow_type(kind) for name, kind in split.attributes}
        self.filter = GroupFilter({name: kind for name, kind in kinds.items() if kind is not None})
        self.members: list[Member] = []
        self.channels: list[Channel] = []
        self.projections: list[Projection] = []
        self._channel: dict[tuple[str, int], int] = {}
        self._projection: dict[tuple[Output, ...], int] = {}
        self._in_order: tuple[np.ndarray, np.ndarray] | None = None
        self._channel_of = np.empty(0, dtype=np.int64)
        self._number: dict[str, int] = {}
        self._names: pa.Array | None = None
        self.join(split.members)

    def join(self, members: Iterable[Member]) -> None:
        """Let members in."""
        first = len(self.members)
        for number, member in enumerate(members, first):
            self._number[member.query.name] = number
            self.members.append(member)
        self._names = None
        came = self.members[first:]
        self.filter.add_all((first + i, member.predicate) for i, member in enumerate(came))
        if len(self.members) > len(self._channel_of):
            room = np.zeros(int(len(self.members) * GROWTH) + 1, dtype=np.int64)
            room[: len(self._channel_of)] = self._channel_of
            self._channel_of = room
        self._channel_of[first : len(self.members)] = [self._channel_for(member) for member in came]

    def leave(self, names: Iterable[str]) -> None:
        """Let members go."""
        for name in names:
            number = self._number.pop(name, None)
            if number is not None:
                self.filter.remove(number)

    @property
    def names(self) -> pa.Array:
        """Names of the members, by number."""
        if self._names is None:
            self._names = pa.array([member.query.name for member in self.members], pa.string())
        return self._names

    def ranks_of(self, members: np.ndarray) -> np.ndarray:
        """The rank of each member's channel; numbers that are sorted in linear time if they are few."""
        found: np.ndarray = self._ordered()[1][self._channel_of[members]]
        return found

    def channel_at(self, rank: int) -> Channel:
        """Channels by rank: those with one projection lie side by side."""
        return self.channels[int(self._ordered()[0][rank])]

    def _ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Channels by rank, and ranks by channel."""
        if self._in_order is None:
            order = np.argsort([channel.projection for channel in self.channels], kind="stable")
            ranks = np.empty(len(order), dtype=np.int16 if len(order) <= SHORT else np.int64)
            ranks[order] = np.arange(len(order))
            self._in_order = order, ranks
        return self._in_order

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Numbers of those that are members."""
        return [self._number[name] for name in names if name in self._number]

    def present(self) -> Iterable[str]:
        """Names of the members that are there."""
        return self._number.keys()

    def _channel_for(self, member: Member) -> int:
        projection = self._projection.get(member.outputs)
        if projection is None:
            projection = self._projection[member.outputs] = len(self.projections)
            self.projections.append(Projection(member.outputs, _columns(member.outputs)))
        key = member.query.owner, projection
        found = self._channel.get(key)
        if found is None:
            found = self._channel[key] = len(self.channels)
            self.channels.append(Channel(member.query, projection))
            self._in_order = None
        return found


def _columns(outputs: Sequence[Output]) -> tuple[str, ...]:
    """What outputs read, and one column at least, which tells how many rows there are."""
    found: dict[str, None] = {}
    for output in outputs:
        read = [column_name(*output.field)] if output.field is not None else quoted_names(output.sql)
        found.update(dict.fromkeys(read))
    return tuple(found)

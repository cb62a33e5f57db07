"""Split keys: rows of a hot key of an equi-join are worked on by several sites, all others by the hash of
their keys.

Only probing is spread. A new row of a hot key goes to one site as *origin*: it looks there for everything
that is older. Rows of all inputs but one go to the other sites, too, to be met by origins of the same batch;
the largest input is never copied. Rows belong to the partition of their hash wherever they travel: it is in
their tags (`router.with_home`), and the site of the origin stores them there.

A result is found by one of its rows, the new one of the lowest rank in its query
(`operators.join.sources.chain_rows`), at the site where this is an origin: once, and with every other new
row at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import partition_of
from anabranch.exchange.router import Case, Placed, WireNames, WireRows, with_home

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key whose rows are spread.

    Attributes
    ----------
    address
        The hash of the key.
    states
        Names of the inputs whose rows of this key are spread: of all queries that join them.
    largest
        The one that is not copied, if any.
    lanes
        Partitions that get the rows, one at each site.
    stays
        Whether rows go where they belong nevertheless: only answers of a group are spread.
    """

    address: int
    states: tuple[str, ...]
    largest: str | None
    lanes: tuple[int, ...]
    stays: bool = False

    @property
    def home(self) -> int:
        """The partition that the rows belong to."""
        return int(partition_of(np.array([self.address], dtype=np.int64))[0])

    def to_json(self) -> list[Any]:
        return [self.address, list(self.states), self.largest, list(self.lanes), self.stays]

    @classmethod
    def from_json(cls, data: list[Any]) -> HotKey:
        address, states, largest, lanes, *stays = data
        return cls(address, tuple(states), largest, tuple(lanes), *stays)


@dataclass(frozen=True, slots=True)
class SplitInput:
    """An input with hot keys: its number, its name, and whole-number columns that tell its rows apart."""

    number: int
    state: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitRouter:
    """Routes the rows of one input that has hot keys."""

    source: SplitInput
    keys: tuple[HotKey, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.source.number,)

    def placed(self, rows: WireRows) -> Placed:
        mine = rows.of_input(self.source.number)
        hashes = rows.addresses[mine]
        hot = {key.address: key for key in self.keys}
        cold = mine[~np.isin(hashes, list(hot))]
        found = [Placed.as_addressed(cold, rows.tags[cold], rows.addresses[cold])]
        found += [self._spread(key, rows, mine[hashes == address]) for address, key in hot.items()]
        return Placed(
            np.concatenate([p.rows for p in found]),
            np.concatenate([p.tags for p in found]),
            np.concatenate([p.addresses for p in found]),
            np.concatenate([p.partitions for p in found]),
        )

    def _spread(self, key: HotKey, rows: WireRows, mine: Int64s) -> Placed:
        """Each row at its origin first, then where it is met."""
        lanes = np.array(key.lanes, dtype=np.int64)
        first = self._turns(rows, mine) % len(lanes)
        copies = 1 if key.largest == self.source.state else len(lanes)
        turns = (first[:, None] + np.arange(copies)) % len(lanes)
        which = np.repeat(mine, copies)
        tags = (rows.tags[which] | with_home(0, key.home)).astype(np.int32)
        return Placed(which, tags, rows.addresses[which], lanes[turns].ravel())

    def _turns(self, rows: WireRows, mine: Int64s) -> Int64s:
        """A number of each row that depends on nothing but its values."""
        mixed = rows.times[mine].copy()
        for column in self.source.columns:
            mixed ^= rows.column(column, mine)
        return mixed ^ (mixed >> 7) ^ (mixed >> 17)

    def cases(self, names: WireNames) -> list[Case]:
        return [self._case(key, names) for key in self.keys]

    def _case(self, key: HotKey, names: WireNames) -> Case:
        values = " ^ ".join([names.time, *(f"coalesce(`{c}`, 0L)" for c in self.source.columns)])
        turn = f"(({values}) ^ shiftright({values}, 7) ^ shiftright({values}, 17))"
        turn = f"CAST(pmod({turn}, {len(key.lanes)}L) AS INT)"
        lanes = f"CAST(split('{','.join(map(str, key.lanes))}', ',') AS ARRAY<INT>)"
        if key.largest == self.source.state:
            partitions = f"array(get({lanes}, {turn}))"
        else:
            partitions = (
                f"concat(slice({lanes}, {turn} + 1, {len(key.lanes)} - {turn}), slice({lanes}, 1, {turn}))"
            )
        return Case(
            f"{names.is_input(self.source.number)} AND {names.address} = {_long(key.address)}",
            f"({names.tag} | {with_home(0, key.home)})",
            names.address,
            partitions,
        )


def _long(value: int) -> str:
    """A literal of Spark SQL; the least of all has no other form."""
    return f"{value}L" if value > -(1 << 63) else f"({value + 1}L - 1L)"


def split_routers(keys: tuple[HotKey, ...], inputs: Mapping[str, SplitInput]) -> list[SplitRouter]:
    """A router for each input that has hot keys."""
    found = []
    for state, source in inputs.items():
        if mine := tuple(key for key in keys if state in key.states and not key.stays):
            found.append(SplitRouter(source, mine))
    return found

"""The paths of the units of one batch, worked out one after the other over a table of what is where."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from anabranch.exchange.coordinated_table import CoordinatedTable, Hop, Path, Unit, unit_number
from anabranch.exchange.set_cover import decided, shared_out

MOST_PROBES = 1e3
"""Joined rows for each row of a unit that count as load at most: estimates may be far off."""
OUT_OF_TURN = 1e3
"""How many times as loaded a place counts that is no lane any more, so that it dies out."""
LEAST_IN_REACH = 0.05
"""Of the rows of a unit: what counts of one that is hardly in reach."""
Ints = npt.NDArray[np.int64]
_NONE: Ints = np.empty(0, dtype=np.int64)


class BatchPaths:
    """The paths of the units of one batch.

    Parameters
    ----------
    lanes
        Places that new rows may go to, whatever is there.
    loads
        Load value by place; what units add to it is counted on.
    watermarks
        By reference: no row that comes is older.
    unit_load
        What joining a unit adds to the load of one place.
    capacity
        By place, how much work it can do, where places differ.
    at_random
        Covers are of places at random, if given: experiments compare with that.
    """

    def __init__(
        self,
        table: CoordinatedTable,
        batch: int,
        *,
        lanes: Sequence[int],
        loads: Mapping[int, float],
        watermarks: Mapping[str, int | None],
        warm_up: int,
        unit_load: float = 1.0,
        capacity: Mapping[int, float] | None = None,
        at_random: random.Random | None = None,
    ) -> None:
        self._table, self._batch, self._unit_load = table, batch, unit_load
        self._warm_up = min(warm_up, len(lanes))
        self._at_random = at_random
        self._lanes = tuple(lanes)
        self._places = sorted(table.used().union(lanes))
        """All that matter; below, places are told by their position here."""
        its_lanes = frozenset(lanes)
        self._is_lane = np.array([place in its_lanes for place in self._places])
        self._loads = np.array([max(loads.get(place, 0.0), 0.0) for place in self._places])
        self._loads[~self._is_lane] = OUT_OF_TURN * (1 + self._loads[~self._is_lane])
        streams = table.streams
        self._loads_in = np.tile(self._loads, (len(streams) - 1, 1))
        """The same by hop: a step waits for the busiest place of each of them."""
        capacity = capacity or {}
        self._capacity = np.array([capacity.get(place, 1.0) for place in self._places])
        self._ranks = {stream.alias: rank for rank, stream in enumerate(streams)}
        self._orders = [
            np.array([[self._ranks[a] for a in order] for order in s.orders], dtype=np.int64) for s in streams
        ]
        self._results = [np.array([table.results_of(s.alias, o) for o in s.orders]) for s in streams]
        """By stream and order, rows before each hop, and behind the last."""
        units = [table.units.get(stream.alias, ()) for stream in streams]
        self._names = [[unit.number for unit in its] for its in units]
        self._usual_rows = [its[-1].rows if its else 1 for its in units]
        room = max(map(len, units)) + 2
        self._has = np.zeros((len(streams), len(self._places), room), dtype=np.bool_)
        self._needed = np.zeros((len(streams), len(streams), room))
        """By origin and probed stream: rows of each unit that are covered, as far as they are in reach."""
        positions = {place: position for position, place in enumerate(self._places)}
        for probed, its in enumerate(units):
            for number, unit in enumerate(its):
                for place in unit.places:
                    self._has[probed, positions[place], number] = True
            self._reach(probed, its, watermarks)

    def _reach(self, probed: int, units: Sequence[Unit], watermarks: Mapping[str, int | None]) -> None:
        if not units:
            return
        first, last, rows = np.array([(u.first, u.last, max(1, u.rows)) for u in units]).T
        streams = self._table.streams
        for origin, stream in enumerate(streams):
            watermark = watermarks.get(stream.alias)
            since = int(last.min()) if watermark is None else watermark - streams[probed].window_us
            share = np.clip((last - since + 1) / (last - first + 1), LEAST_IN_REACH, 1.0)
            self._needed[origin, probed, : len(units)] = np.where(last >= since, rows * share, 0.0)

    @property
    def loads(self) -> dict[int, float]:
        """Load value by lane, with what the paths so far add."""
        known = dict(zip(self._places, self._loads.tolist(), strict=True))
        return {place: known[place] for place in self._lanes}

    def of_all(self, segments: Mapping[str, int]) -> dict[str, tuple[Path, ...]]:
        """By reference, in the order of ranks: the path of each of its segments."""
        return {
            s.alias: tuple(self.routed(s.alias, segment) for segment in range(segments[s.alias]))
            for s in self._table.streams
        }

    def routed(self, alias: str, segment: int) -> Path:
        """The path of a unit, by the join order with the least overhead. Units come by rank."""
        origin = self._ranks[alias]
        needed, results = self._needed[origin], self._results[origin]
        number, stored, covers, ends, overhead = decided(
            self._orders[origin], results, self._has, needed, self._loads, self._loads_in, self._is_lane,
            self._warm_up, self._ranked(),
        )  # fmt: skip
        hops = []
        for hop, probed in enumerate(self._orders[origin][number].tolist() if len(covers) else ()):
            # Rows are stored at all places of the first hop, and may be joined there.
            places = covers[ends[hop - 1] : ends[hop]] if hop else stored
            work = self._unit_load * min(results[number, hop], MOST_PROBES)
            owners = shared_out(
                self._has[probed],
                needed[probed],
                places,
                self._loads_in[hop],
                self._loads,
                self._capacity,
                work,
            )
            hops.append(Hop(self._table.streams[probed].alias, self._joined(probed, owners)))
        self._add(origin, unit_number(self._batch, segment), stored)
        return Path(tuple(self._places[place] for place in stored.tolist()), tuple(hops), float(overhead))

    def _ranked(self) -> Ints:
        """Places in the order in which covers take them, if not by load."""
        if self._at_random is None:
            return _NONE
        return np.array(self._at_random.sample(range(len(self._places)), len(self._places)))

    def _joined(self, probed: int, owners: Ints) -> dict[int, frozenset[int]]:
        """By place the units that are joined there."""
        names, its, found = self._names[probed], owners.tolist(), dict[int, frozenset[int]]()
        for place in sorted({*its} - {-1}):
            found[self._places[place]] = frozenset(compress(names, map(place.__eq__, its)))
        return found

    def _add(self, stream: int, name: int, stored: Ints) -> None:
        """Units of higher ranks cover this one, too."""
        names = self._names[stream]
        if len(names) == self._has.shape[2]:
            self._has = np.concatenate([self._has, np.zeros_like(self._has)], axis=2)
            self._needed = np.concatenate([self._needed, np.zeros_like(self._needed)], axis=2)
        self._has[stream, stored, len(names)] = True
        self._needed[stream + 1 :, stream, len(names)] = self._usual_rows[stream]
        names.append(name)

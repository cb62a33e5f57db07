"""Moving state between simulated sites (Flux, section 5.2): quiesce, extract, transfer, install, restart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from anabranch.adapt.proposal import Move
from anabranch.adapt.statistics import Flags, Floats, Ints
from anabranch.sim.cluster import Network
from anabranch.sim.disk_model import ROW_BYTES


class Stage(StrEnum):
    """How far a move is."""

    QUIESCING = "quiescing"
    TRANSFERRING = "transferring"
    INSTALLING = "installing"
    DONE = "done"


@dataclass(slots=True)
class _Transit:
    move: Move
    bytes_left: float
    rows_ahead: float
    """Rows that reach the donor before the last one of this partition does."""
    stage: Stage = Stage.QUIESCING


class Mover:
    """Carries out the controller's orders.

    Parameters
    ----------
    handling_s
        Seconds a site needs to take a partition out, or to put it in.
    """

    def __init__(self, network: Network, state_bytes: Ints, *, handling_s: float) -> None:
        self._network = network
        self._state_bytes = state_bytes
        self._handling_s = handling_s
        self._transits: list[_Transit] = []
        self.stalled: Flags = np.zeros(len(state_bytes), np.bool_)
        """Partitions whose input the producers hold back."""

    def order(self, move: Move, *, rows_ahead: float, rows_along: int) -> None:
        """Start a move; rows held back for the partition at the donor travel with it."""
        size = float(self._state_bytes[move.partition]) + rows_along * ROW_BYTES
        self._transits.append(_Transit(move, size, rows_ahead))
        self.stalled[move.partition] = True

    @property
    def busy(self) -> bool:
        return bool(self._transits)

    def urgent(self) -> Ints:
        """Partitions whose last rows are next in line: connections keep order, the model of them does not."""
        late = [t for t in self._transits if t.stage is Stage.QUIESCING and t.rows_ahead <= 0]
        return np.array([t.move.partition for t in late], dtype=np.int64)

    def advance(
        self, under_way: Ints, taken_by_site: Floats, stall_s: Floats, *, tick_s: float
    ) -> tuple[Move, ...]:
        """Let a tick pass; returns the moves that are done.

        A partition is quiesced when the rows that were under way to it have been processed: nothing more is
        sent to it. A site that is busy with its disk answers between two accesses.
        """
        self._transfer(tick_s)
        for t in self._transits:
            t.rows_ahead -= float(taken_by_site[t.move.source])
            if t.stage is Stage.QUIESCING and under_way[t.move.partition] == 0:
                if stall_s[t.move.source] <= tick_s:
                    stall_s[t.move.source] += self._handling_s
                    t.stage = Stage.TRANSFERRING
            elif t.stage is Stage.INSTALLING and stall_s[t.move.target] <= tick_s:
                stall_s[t.move.target] += self._handling_s
                t.stage = Stage.DONE
        done = tuple(t.move for t in self._transits if t.stage is Stage.DONE)
        self._transits = [t for t in self._transits if t.stage is not Stage.DONE]
        self.stalled[[move.partition for move in done]] = False
        return done

    def _transfer(self, tick_s: float) -> None:
        flying = [t for t in self._transits if t.stage is Stage.TRANSFERRING]
        if not flying:
            return
        speed = min(self._network.pair_bytes_per_s, self._network.total_bytes_per_s / len(flying))
        for t in flying:
            t.bytes_left -= speed * tick_s
            if t.bytes_left <= 0:
                t.stage = Stage.INSTALLING

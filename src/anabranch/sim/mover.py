"""Moving state between simulated sites (Flux, section 5.2): quiesce, extract, transfer, install, restart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.measures.statistics import Flags, Floats, Ints
from anabranch.sim.cluster import Network
from anabranch.sim.disk_model import ROW_BYTES


class Stage(StrEnum):
    """How far a move is."""

    QUIESCING = "quiescing"
    EXTRACTING = "extracting"
    TRANSFERRING = "transferring"
    ARRIVED = "arrived"
    INSTALLING = "installing"
    DONE = "done"


@dataclass(slots=True)
class _Transit:
    move: Move
    bytes_left: float
    rows_ahead: float
    """Rows that reach the donor before the last one of this partition does."""
    stage: Stage = Stage.QUIESCING
    handling_left_s: float = 0.0


class Mover:
    """Carries out the controller's orders."""

    def __init__(self, network: Network, state_bytes: Ints) -> None:
        self._network = network
        self._state_bytes = state_bytes
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
        self, under_way: Ints, taken_by_site: Floats, stall_s: Floats, *, handling_s: Floats, tick_s: float
    ) -> tuple[Move, ...]:
        """Let a tick pass; returns the moves that are done.

        A partition is quiesced when the rows that were under way to it have been processed: nothing more is
        sent to it. A site that is busy with its disk answers between two accesses. Steps follow each other
        (section 5.2): what is not taken out cannot be sent, and the producers hear of a partition's new place
        when it has been put in.

        Parameters
        ----------
        stall_s
            Seconds each site is occupied; taking out and putting in are added.
        handling_s
            Seconds each site needs to take a partition out, or to put it in.
        """
        self._transfer(tick_s)
        for t in self._transits:
            t.rows_ahead -= float(taken_by_site[t.move.source])
            t.handling_left_s -= tick_s
            source, target = t.move.source, t.move.target
            if t.stage is Stage.QUIESCING and under_way[t.move.partition] == 0:
                _handle(t, source, Stage.EXTRACTING, stall_s, handling_s, tick_s)
            elif t.stage is Stage.ARRIVED:
                _handle(t, target, Stage.INSTALLING, stall_s, handling_s, tick_s)
            # Whole ticks, rounded to the nearest.
            if t.stage is Stage.EXTRACTING and t.handling_left_s <= tick_s / 2:
                t.stage = Stage.TRANSFERRING
            elif t.stage is Stage.INSTALLING and t.handling_left_s <= tick_s / 2:
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
                t.stage = Stage.ARRIVED


def _handle(t: _Transit, site: int, stage: Stage, stall_s: Floats, handling_s: Floats, tick_s: float) -> None:
    """Occupy a site with taking a partition out or putting it in, if it is not busy with its disk."""
    if stall_s[site] <= tick_s:
        stall_s[site] += handling_s[site]
        t.stage, t.handling_left_s = stage, float(stall_s[site])

"""Producers, their buffer and the connections to the sites: where one slow site blocks the others.

All producers are alike and send to all sites, so they are simulated as one with their buffers and
connections taken together: a stage with `n` producers and 24 rows per connection has `24·n` rows
under way to each site. Head-of-line blocking, which is what matters here, is a matter of totals.

    producers ──► skew buffer (shared by all destinations) ──► connection to site 0 … n-1 ──► sites
                  Exchange: one row in hand per producer        Exchange: all the space is here

Rows leave in packets (`packets`), which take part of the connections' space while they fill.
"""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.statistics import Flags, Floats, Ints, sum_by_site
from anabranch.adapt.memory.skew_buffer import SkewBuffer
from anabranch.sim.packets import Packets


class Exchange:
    """Rows on their way to the sites, counted by partition.

    Parameters
    ----------
    shares
        Probability of each partition among new rows.
    buffer
        The transient-skew buffer; for a plain Exchange, the rows in the producers' hands.
    connection_rows
        Rows that fit into all connections to one site.
    packets
        How rows leave; None: one by one.
    rng
        Source of the rows' order.
    """

    def __init__(
        self,
        shares: Floats,
        *,
        buffer: SkewBuffer,
        connection_rows: int,
        rng: np.random.Generator,
        packets: Packets | None = None,
    ) -> None:
        self._shares = shares
        self._buffer = buffer
        self._connection_rows = connection_rows
        self._rng = rng
        self._packets = packets
        self._rows = _RowSource(shares, rng)
        self.waiting: Ints = np.zeros(len(shares), np.int64)
        """Rows in the skew buffer."""
        self.under_way: Ints = np.zeros(len(shares), np.int64)
        """Rows in the connections that their site can take."""
        self.produced = 0

    def warm_up(self, site_of: Ints, sites: int) -> None:
        """Fill buffer and connections with rows in proportion, as at the start of the paper's figure 3."""
        self._produce(self._buffer.capacity_rows)
        self.flow(site_of, sites, np.zeros(len(site_of), np.bool_))

    def flow(self, site_of: Ints, sites: int, stalled: Flags) -> None:
        """Send what can be sent, and let the producers fill the space."""
        room = self._connection_rows - sum_by_site(self._in_connections(), site_of, sites)
        sent: Ints = np.zeros_like(self.waiting)
        room = self._send(sent, room, site_of, stalled)
        self._produce(self._producible(room, site_of, stalled))
        self._send(sent, room, site_of, stalled)
        self.under_way += sent if self._packets is None else self._packets.add(sent, site_of)

    def _in_connections(self) -> Ints:
        return self.under_way if self._packets is None else self.under_way + self._packets.open

    def _send(self, sent: Ints, room: Floats, site_of: Ints, stalled: Flags) -> Floats:
        """Count what goes into the connections; returns the room left in them."""
        there = np.flatnonzero(self.waiting)  # few of thousands of partitions have rows waiting
        where = site_of[there]
        going = self._buffer.admit(
            self.waiting[there], room, where, stalled=stalled[there], phase=self._rng.random()
        )
        self.waiting[there] -= going
        sent[there] += going
        return room - sum_by_site(going, where, len(room))

    def flush(self, site: int, site_of: Ints) -> None:
        """Send packets to a site although they are not full."""
        if self._packets is not None:
            self.under_way += self._packets.flush(site, site_of)

    def _producible(self, room: Floats, site_of: Ints, stalled: Flags) -> int:
        """Rows until the producers block: those that can go on, and those that fill the buffer.

        With n new rows, n·share_j go to site j, which takes room_j of them; the rest must find space in the
        buffer. That rest grows with n in straight pieces, so the largest n is found from its corners.
        """
        space = self._buffer.capacity_rows - int(self.waiting.sum())
        open_shares = np.where(stalled, 0.0, self._shares)
        share = np.append(sum_by_site(open_shares, site_of, len(room)), 1.0 - open_shares.sum())
        room = np.append(np.maximum(room, 0.0), 0.0)
        used = share > 1e-12
        corners = room[used] / share[used]
        order = np.argsort(corners)
        blocked, rest, at = 0.0, float(space), 0.0
        for corner, own in zip(corners[order].tolist(), share[used][order].tolist(), strict=True):
            if blocked * (corner - at) >= rest and blocked > 0:
                break
            rest -= blocked * (corner - at)
            blocked, at = blocked + own, corner
        return max(0, int(at + rest / blocked)) if blocked > 0 else 0

    def _produce(self, rows: int) -> None:
        if rows > 0:
            self.waiting += self._rows.draw(rows)
            self.produced += rows

    def rows_inside(self) -> int:
        return int((self.waiting + self._in_connections()).sum())


class _RowSource:
    """Rows in random order, drawn once and read on from a random place: much faster than drawing."""

    LENGTH = 1 << 21

    def __init__(self, shares: Floats, rng: np.random.Generator) -> None:
        edges = np.cumsum(shares)
        drawn = np.searchsorted(edges, rng.random(self.LENGTH) * edges[-1], side="right")
        self._partitions = np.minimum(drawn, len(shares) - 1)
        self._count = len(shares)
        self._rng = rng
        self._at = 0

    def draw(self, rows: int) -> Ints:
        """Count the next rows by partition."""
        counts = np.zeros(self._count, np.int64)
        while rows > 0:
            piece = self._partitions[self._at : self._at + rows]
            counts += np.bincount(piece, minlength=self._count)
            rows -= len(piece)
            self._at += len(piece)
            if self._at >= self.LENGTH:
                self._at = int(self._rng.integers(self.LENGTH))
        return counts

"""Rows travel in packets: a connection sends when a packet is full (Flux, section 3).

    producer 0 ──[7 of 12 rows]──┐
    producer 1 ──[2 of 12 rows]──┼──► site j sees rows 12 at a time
    producer n ──[full: goes]────┘

A site that gets few rows therefore gets them in few, large pieces, and what it was seen to do in a short
round says little about what it does: "the controller only receives an accurate sample of processing load
on machines with popular partitions" (section 5.4). Rows that were sent one by one would hide this.
"""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.statistics import Ints, sum_by_site
from anabranch.adapt.memory.skew_buffer import take_evenly


class Packets:
    """The open packets of all connections.

    Rows are counted by partition and site; which of them are in which producer's packet is left to chance,
    as all producers are alike.

    Parameters
    ----------
    rows_per_packet
        1 KB of 80-byte rows: 12. With 1, every row goes at once.
    """

    def __init__(
        self, partitions: int, *, producers: int, sites: int, rows_per_packet: int, rng: np.random.Generator
    ) -> None:
        self._size = rows_per_packet
        self._rng = rng
        self._even = np.full(producers, 1.0 / producers)
        self._filled: Ints = np.zeros((sites, producers), np.int64)
        self.open: Ints = np.zeros(partitions, np.int64)
        """Rows in packets that are not full."""

    def add(self, rows: Ints, site_of: Ints) -> Ints:
        """Put rows into packets; returns the rows of the packets that are full and go."""
        if self._size == 1:
            return rows
        self.open += rows
        sites = len(self._filled)
        new = sum_by_site(rows, site_of, sites).astype(np.int64)
        self._filled += self._rng.multinomial(new, self._even)
        self._filled %= self._size
        return self._leave(self._filled.sum(axis=1), site_of)

    def flush(self, site: int, site_of: Ints) -> Ints:
        """Send what there is to a site: an acknowledgement keeps its place behind the rows before it."""
        going = np.where(site_of == site, self.open, 0)
        self._filled[site] = 0
        self.open -= going
        return going

    def _leave(self, stay: Ints, site_of: Ints) -> Ints:
        """Take out all but so many rows per site; a row that rounding leaves over goes the next time."""
        there = sum_by_site(self.open, site_of, len(stay))
        share = np.clip((there - stay) / np.maximum(there, 1.0), 0.0, 1.0)
        going = take_evenly(self.open, share[site_of], phase=self._rng.random())
        self.open -= going
        return going

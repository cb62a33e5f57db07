"""Performance ratio (COSMOS, section 6.1): how long a result takes, as a multiple of the work in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.adapt.placement.fragment import Fragment
from anabranch.operators.rows.arrays import Int64s

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paths:
    """The way of each stream's rows through each query: one path for every stream of a query.

    Attributes
    ----------
    query, stream
        By path.
    fragment
        By path and place: the fragment, or -1 beyond the end.
    seconds
        By path and place: CPU seconds of a row that becomes a result (equation 6.1).
    """

    query: Int64s
    stream: Int64s
    fragment: Int64s
    seconds: Numbers

    @classmethod
    def of(cls, fragments: list[Fragment]) -> Paths:
        """Paths of fragments; downstream neighbours are numbers in the list."""
        found: list[tuple[int, int, list[int], list[float]]] = []
        for number, first in enumerate(fragments):
            if not first.reads_stream:
                continue
            along, seconds, at = [], [], number
            while True:
                along.append(at)
                seconds.append(fragments[at].path[first.stream])
                after = fragments[at].downstream
                if after is None:
                    break
                at = after
            found.append((first.query, first.stream, along, seconds))
        longest = max(len(along) for _, _, along, _ in found)
        padded = [along + [-1] * (longest - len(along)) for _, _, along, _ in found]
        times = [s + [0.0] * (longest - len(s)) for _, _, _, s in found]
        return cls(
            np.array([q for q, *_ in found]),
            np.array([s for _, s, *_ in found]),
            np.array(padded),
            np.array(times),
        )

    def ratios(
        self, site: Int64s, native: Int64s, *, wait_s: Numbers, transfer_s: float, stalled_s: Numbers
    ) -> Numbers:
        """PR of each path (equations 6.2 and 6.3).

        Parameters
        ----------
        site, native
            By fragment where it runs, and by stream where it comes in.
        wait_s
            By site how long a row waits there before it is processed.
        transfer_s
            How long a row is under way between two sites.
        stalled_s
            By fragment how long a row waits because the fragment is moving.
        """
        there = self.fragment >= 0
        sites = np.where(there, site[self.fragment], -1)
        before = np.column_stack([native[self.stream], sites[:, :-1]])
        hops = (sites != before) & there
        visits = hops.copy()
        visits[:, 0] = True
        waits = np.where(visits & there, wait_s[sites], 0.0) + np.where(there, stalled_s[self.fragment], 0.0)
        work = self.seconds.sum(axis=1)
        delay = waits.sum(axis=1) + work + transfer_s * hops.sum(axis=1)
        ratios: Any = delay / work
        return np.asarray(ratios, dtype=np.float64)

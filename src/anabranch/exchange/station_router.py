"""The station router: at which station a row arrives first, and where a joined row goes on.

Rows of a stream with several edges travel alike, addressed to the first of their alternatives. On their way
a share of them gets the tag and the address of another (`Redirect`). Joined rows choose in vectors, inside a
task. Both follow the same shares, which the eddy decides from batch to batch, and numbers that
depend on rows and batch alone, so that a replay does the same. A result is emitted by the station that
completes it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import Addresses
from anabranch.exchange.router import FIRST, Case, Placed, WireNames, WireRows

PARTS = 1024
"""Shares are counted in so many parts."""

States = tuple[str, ...]
"""What would keep a row at each of the stations where it may arrive."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """One choice among inputs, for rows on their way from ingest.

    Attributes
    ----------
    inputs
        Their numbers; rows are addressed to the first.
    columns
        Of each, the column on the wire that is its address.
    shares
        Of each, the rows that it gets, in parts of `PARTS`.
    seed
        So that another batch chooses other rows.
    """

    inputs: tuple[int, ...]
    columns: tuple[str, ...]
    shares: tuple[int, ...]
    seed: int = 0

    def bounds(self) -> list[tuple[int, int]]:
        """Of each alternative, the parts that are its own.

        >>> Redirect((3, 5), ("a", "b"), (1000, 24)).bounds()
        [(0, 1000), (1000, 1024)]
        """
        ends = np.cumsum(self.shares).tolist()
        return list(zip([0, *ends[:-1]], [*ends[:-1], PARTS], strict=True))

    def choose(self, addresses: Addresses, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number of the alternative of each row."""
        parts = (addresses ^ times ^ self.seed) & (PARTS - 1)
        found: npt.NDArray[np.int64] = np.searchsorted([end for _, end in self.bounds()], parts, side="right")
        return found

    def placed(self, rows: WireRows) -> Placed:
        """Rows of the first input, each at the station of its alternative."""
        mine = rows.of_input(self.inputs[0])
        tags, addresses = rows.tags[mine], rows.addresses[mine]
        chosen = self.choose(addresses, rows.times[mine])
        for number, (source, column) in enumerate(zip(self.inputs, self.columns, strict=True)):
            its = np.flatnonzero(chosen == number)
            tags[its] = 2 * source + (tags[its] & FIRST)
            addresses[its] = rows.column(column, mine[its])
        return Placed.as_addressed(mine, tags, addresses)

    def cases(self, names: WireNames) -> list[Case]:
        """One for each alternative with a share, beside the first."""
        part = f"(({names.address} ^ {names.time} ^ {self.seed}L) & {PARTS - 1})"
        alternatives = zip(self.inputs, self.columns, self.bounds(), strict=True)
        return [
            Case(
                f"{names.is_input(self.inputs[0])} AND {part} >= {start} AND {part} < {end}",
                f"{2 * number} + ({names.tag} & {FIRST})",
                f"`{column}`",
            )
            for number, column, (start, end) in list(alternatives)[1:]
            if start < end
        ]


@dataclass(frozen=True, slots=True)
class StationRouter:
    """Shares of rows by choice; even where nothing is known."""

    shares: Mapping[States, tuple[int, ...]] = field(default_factory=dict)

    def shares_of(self, states: States) -> tuple[int, ...]:
        """Of each alternative, the rows that it gets.

        >>> StationRouter().shares_of(("a", "b", "c"))
        (342, 341, 341)
        """
        if states in self.shares:
            return self.shares[states]
        least, more = divmod(PARTS, len(states))
        return tuple(least + (i < more) for i in range(len(states)))

    def choose(self, states: States, vectors: int, *, seed: str) -> list[int]:
        """An alternative for each of some vectors of joined rows."""
        lots = random.Random(f"{seed} {states}")
        return lots.choices(range(len(states)), self.shares_of(states), k=vectors)

    def redirect(
        self, states: States, inputs: Sequence[int], columns: Sequence[str], *, seed: int
    ) -> Redirect:
        """The choice of rows on their way from ingest."""
        return Redirect(tuple(inputs), tuple(columns), self.shares_of(states), seed)

"""The station router: at which station a row arrives first, and where a joined row goes on.

Rows of a stream with several edges travel alike, addressed to the first of their alternatives. On their way
some of them get the tag and the address of another (`Redirect`). Joined rows choose in vectors, inside a
task. Both follow what the eddy has decided for the batch (`Ways`), and numbers that depend on rows and batch
alone, so that a replay does the same. A result is emitted by the station that completes it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import Addresses, partition_of, partition_sql
from anabranch.exchange.router import FIRST, Case, Placed, WireNames, WireRows

PARTS = 1024
"""The lottery counts rows in so many parts."""

States = tuple[str, ...]
"""What would keep a row at each of the stations where it may arrive."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How rows choose among alternatives.

    Attributes
    ----------
    ranks
        Of each alternative, one number or one for each partition there; rows go where the rank is highest,
        to the first of several.
    drawn
        Of each, parts of `PARTS` that the lottery gives it, whatever the ranks.
    """

    ranks: tuple[tuple[int, ...], ...]
    drawn: tuple[int, ...]

    @classmethod
    def even(cls, alternatives: int) -> Ways:
        """The same for each.

        >>> Ways.even(3).drawn
        (342, 341, 341)
        """
        least, more = divmod(PARTS, alternatives)
        drawn = tuple(least + (i < more) for i in range(alternatives))
        return cls(((0,),) * alternatives, drawn)

    @classmethod
    def fixed(cls, alternatives: int, chosen: int) -> Ways:
        """Always the same."""
        return cls(tuple((int(i == chosen),) for i in range(alternatives)), (0,) * alternatives)

    def bounds(self) -> list[tuple[int, int]]:
        """Of each alternative, the parts that the lottery gives it.

        >>> Ways(((0,), (1,)), (24, 1000)).bounds()
        [(0, 24), (24, 1024)]
        """
        ends = np.cumsum(self.drawn).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def may_be_best(self, number: int) -> bool:
        """Whether some row may go to an alternative because of its rank."""
        others = [ranks for i, ranks in enumerate(self.ranks) if i != number]
        return all(max(self.ranks[number]) >= min(ranks) for ranks in others)

    def shares(self) -> list[int]:
        """Of each alternative, its parts, where no partition makes a difference."""
        shares = list(self.drawn)
        best = max(range(len(self.ranks)), key=lambda i: (self.ranks[i][0], -i))
        shares[best] += PARTS - sum(self.drawn)
        return shares


@dataclass(frozen=True, slots=True)
class Redirect:
    """One choice among inputs, for rows on their way from ingest.

    Attributes
    ----------
    inputs
        Their numbers; rows are addressed to the first.
    columns
        Of each, the column on the wire that is its address.
    seed
        So that another batch chooses other rows.
    """

    inputs: tuple[int, ...]
    columns: tuple[str, ...]
    ways: Ways
    seed: int = 0

    def choose(self, addresses: Sequence[Addresses], times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number of the alternative of each row.

        Parameters
        ----------
        addresses
            By alternative.
        """
        ranks = np.stack(
            [
                np.full(len(times), ranks[0]) if len(ranks) == 1 else np.array(ranks)[partition_of(its)]
                for ranks, its in zip(self.ways.ranks, addresses, strict=True)
            ]
        )
        parts = (addresses[0] ^ times ^ self.seed) & (PARTS - 1)
        chosen: npt.NDArray[np.int64] = ranks.argmax(axis=0)
        for number, (start, end) in enumerate(self.ways.bounds()):
            chosen[(parts >= start) & (parts < end)] = number
        return chosen

    def placed(self, rows: WireRows) -> Placed:
        """Rows of the first input, each at the station of its alternative."""
        mine = rows.of_input(self.inputs[0])
        options = [rows.column(column, mine) for column in self.columns]
        chosen = self.choose(options, rows.times[mine])
        tags, addresses = rows.tags[mine], rows.addresses[mine]
        for number, source in enumerate(self.inputs):
            its = np.flatnonzero(chosen == number)
            tags[its] = 2 * source + (tags[its] & FIRST)
            addresses[its] = options[number][its]
        return Placed.as_addressed(mine, tags, addresses)

    def cases(self, names: WireNames) -> list[Case]:
        """One for each alternative beside the first."""
        part = f"(({names.address} ^ {names.time} ^ {self.seed}L) & {PARTS - 1})"
        drawn = sum(self.ways.drawn)
        cases = []
        for number, (start, end) in list(enumerate(self.ways.bounds()))[1:]:
            ways = [f"({part} >= {start} AND {part} < {end})"] if start < end else []
            if drawn < PARTS and self.ways.may_be_best(number):
                ways.append(f"({part} >= {drawn} AND {self._is_best(number)})")
            if ways:
                when = f"{names.is_input(self.inputs[0])} AND ({' OR '.join(ways)})"
                tag = f"{2 * self.inputs[number]} + ({names.tag} & {FIRST})"
                cases.append(Case(when, tag, f"`{self.columns[number]}`"))
        return cases

    def _is_best(self, number: int) -> str:
        """Spark SQL: whether an alternative has the highest rank, and no earlier one has the same."""
        ranks = [self._rank_sql(i) for i in range(len(self.inputs))]
        tests = [
            f"{ranks[number]} {'>' if other < number else '>='} {ranks[other]}"
            for other in range(len(ranks))
            if other != number
        ]
        return f"({' AND '.join(tests)})"

    def _rank_sql(self, number: int) -> str:
        ranks = self.ways.ranks[number]
        if len(ranks) == 1:
            return str(ranks[0])
        # One text constant, which Spark folds to an array: hundreds of literals would have to be analysed.
        table = f"CAST(split('{';'.join(map(str, ranks))}', ';') AS ARRAY<INT>)"
        return f"get({table}, {partition_sql(f'`{self.columns[number]}`')})"


@dataclass(frozen=True, slots=True)
class StationRouter:
    """Ways by choice; even where nothing is known."""

    ways: Mapping[States, Ways] = field(default_factory=dict)

    def ways_of(self, states: States) -> Ways:
        return self.ways.get(states) or Ways.even(len(states))

    def choose(self, states: States, vectors: int, *, seed: str) -> list[int]:
        """An alternative for each of some vectors of joined rows."""
        lots = random.Random(f"{seed} {states}")
        return lots.choices(range(len(states)), self.ways_of(states).shares(), k=vectors)

    def redirect(
        self, states: States, inputs: Sequence[int], columns: Sequence[str], *, seed: int
    ) -> Redirect:
        """The choice of rows on their way from ingest."""
        return Redirect(tuple(inputs), tuple(columns), self.ways_of(states), seed)

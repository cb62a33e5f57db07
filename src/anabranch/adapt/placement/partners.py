"""Partners of sites (COSMOS, section 6.2.2): with whom each balances its load.

Partnership is symmetric. A site asks up to `most_asked` others, first those with which it shares many pairs
of neighbouring fragments, then others at random. One that is asked accepts if it has asked the same, or has
room among those that asked it (`most_accepted`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TRIES = 10
"""Sites at random that are asked beyond the neighbours."""


@dataclass(slots=True)
class Partners:
    """Who is whose partner."""

    sites: int
    most_asked: int
    most_accepted: int
    asked: list[set[int]] = field(default_factory=list)
    """By site: partners that it asked itself (g_1)."""
    accepted: list[set[int]] = field(default_factory=list)
    """By site: partners that asked it (g_2)."""

    def __post_init__(self) -> None:
        self.asked = [set() for _ in range(self.sites)]
        self.accepted = [set() for _ in range(self.sites)]

    def of(self, site: int) -> frozenset[int]:
        return frozenset(self.asked[site] | self.accepted[site])

    def choose(self, site: int, neighbours: Sequence[int], rng: random.Random) -> None:
        """Let a site ask for partners (algorithm 6.1); `neighbours`: by descending neighbouring factor."""
        others = [s for s in range(self.sites) if s != site and s not in neighbours]
        rng.shuffle(others)
        for other in (*neighbours, *others[:TRIES]):
            if len(self.asked[site]) >= self.most_asked:
                return
            self.ask(site, other)

    def ask(self, site: int, other: int) -> bool:
        """Let a site ask another; whether they are partners now."""
        if other in self.asked[site]:
            return True
        if other in self.accepted[site]:
            self.accepted[site].remove(other)
            self.asked[site].add(other)
            return True
        if site not in self.asked[other]:
            if len(self.accepted[other]) >= self.most_accepted:
                return False
            self.accepted[other].add(site)
        self.asked[site].add(other)
        return True


def neighbouring_sites(site: int, pairs: Mapping[tuple[int, int], int]) -> list[int]:
    """Sites whose fragments are neighbours of this one's, those with the most pairs first."""
    factor: dict[int, int] = {}
    for (a, b), count in pairs.items():
        if site in (a, b) and a != b:
            other = b if a == site else a
            factor[other] = factor.get(other, 0) + count
    return sorted(factor, key=lambda other: (-factor[other], other))

"""Which site a partition left, and when: so that a move is not undone before it could show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.adapt.balance.proposal import Move


@dataclass(frozen=True, slots=True)
class RecentMove:
    """A partition left a site in a round, while the load was in this epoch."""

    partition: int
    site: int
    round: int
    epoch: int


@dataclass(frozen=True, slots=True)
class RecentMoves:
    """The recent_moves of the last rounds.

    >>> gone = RecentMoves().with_moves([Move(7, 0, 3)], round=4, epoch=0)
    >>> gone.barred(round=9, epoch=0, span=10)
    {7: frozenset({0})}
    >>> gone.barred(round=9, epoch=1, span=10), gone.barred(round=15, epoch=0, span=10)
    ({}, {})
    """

    entries: tuple[RecentMove, ...] = ()

    def with_moves(self, moves: Iterable[Move], *, round: int, epoch: int) -> RecentMoves:  # noqa: A002
        left = (RecentMove(m.partition, m.source, round, epoch) for m in moves)
        return RecentMoves((*self.entries, *left))

    def without_older_than(self, round: int) -> RecentMoves:  # noqa: A002
        return RecentMoves(tuple(d for d in self.entries if d.round >= round))

    def barred(self, *, round: int, epoch: int, span: int) -> dict[int, frozenset[int]]:  # noqa: A002
        """Sites to which each partition may not return. After a shift of the load it may."""
        barred: dict[int, frozenset[int]] = {}
        for d in self.entries:
            if d.epoch == epoch and round - d.round <= span:
                barred[d.partition] = barred.get(d.partition, frozenset()) | {d.site}
        return barred

    def to_json(self) -> list[list[int]]:
        return [[d.partition, d.site, d.round, d.epoch] for d in self.entries]

    @classmethod
    def from_json(cls, data: Iterable[Sequence[int]]) -> RecentMoves:
        return cls(tuple(RecentMove(int(p), int(s), int(r), int(e)) for p, s, r, e in data))

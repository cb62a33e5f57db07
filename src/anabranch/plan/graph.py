"""The join graph of a query: which references can be joined directly, and on which keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.plan.logical import Query


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Aliases as nodes; key classes and residual predicates as (hyper-)edges.

    Key classes are named by their index in `Query.classes`, residuals by theirs in `Query.residuals`.
    """

    aliases: tuple[str, ...]
    class_aliases: tuple[frozenset[str], ...]
    residual_aliases: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, query: Query) -> JoinGraph:
        return cls(
            aliases=tuple(ref.alias for ref in query.refs),
            class_aliases=tuple(frozenset(m.alias for m in c.members) for c in query.classes),
            residual_aliases=tuple(frozenset(r.aliases) for r in query.residuals),
        )

    def shared_classes(self, left: Iterable[str], right: Iterable[str]) -> tuple[int, ...]:
        """Classes with a member on both sides: the equi-join keys between them."""
        left, right = frozenset(left), frozenset(right)
        return tuple(i for i, members in enumerate(self.class_aliases) if members & left and members & right)

    def routing_classes(self) -> tuple[int, ...]:
        """Classes that every reference takes part in: rows may be partitioned on them."""
        everyone = frozenset(self.aliases)
        return tuple(i for i, members in enumerate(self.class_aliases) if members == everyone)

    def residuals_between(self, left: Iterable[str], right: Iterable[str]) -> tuple[int, ...]:
        """Residuals that become decidable when the two sides meet."""
        left, right = frozenset(left), frozenset(right)
        return tuple(
            i
            for i, members in enumerate(self.residual_aliases)
            if members <= left | right and members & left and members & right
        )

    def connected(self, left: Iterable[str], right: Iterable[str]) -> bool:
        """Whether joining the two sides is more than a cross product."""
        return bool(self.shared_classes(left, right) or self.residuals_between(left, right))

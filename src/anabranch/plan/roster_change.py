"""Members that leave groups and members that join them, at one boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.plan.logical import Member


@dataclass(frozen=True, slots=True)
class RosterChange:
    """By representative, names of members that leave, and members that join after that."""

    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.left.values())) + sum(map(len, self.joined.values()))


NO_CHANGE = RosterChange()

"""Whether a join without a common key runs at stations on all sites, or as a tree on one.

    one site      what the join takes, all of it
    stations      the same, shared by the sites, and a hop for every further group of stations

What a hop costs is not guessed: of the time of a step in which no site works, every hop of the step has its
part. A join changes when the other way has been clearly cheaper for a while, because a change reads all that
it keeps once more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.measures.site_report import SiteReport

CLEARLY = 1.5
"""How many times as much the present way has to cost."""
BOUNDARIES = 12
"""For so many steps in a row."""
FADE = 1.1
"""What becomes of a short overhead with each step."""
HOP_SHARE = 0.5
"""Of the time in which no site works, what is the hops': the rest is planning and committing."""


@dataclass(frozen=True, slots=True)
class EitherWay:
    """A join that can run both ways."""

    query: str
    at_stations: bool
    hops: int
    """That its rows may take at stations, the first included."""


@dataclass(frozen=True, slots=True)
class LayoutVotes:
    """A value: each step gives another one.

    Attributes
    ----------
    votes
        By query, for how many steps in a row the other way would have been clearly cheaper.
    overhead_s
        Time of a step in which no site works. A machine that is busy with other things makes it longer, so
        that short ones count, and fade slowly.
    """

    votes: Mapping[str, int] = field(default_factory=dict)
    overhead_s: float = math.inf

    def after(
        self,
        joins: Sequence[EitherWay],
        reports: Sequence[SiteReport],
        *,
        sites: int,
        slots: int,
        overhead_s: float,
    ) -> tuple[LayoutVotes, dict[str, bool]]:
        """The votes after a step, and by query that is to change, whether it is to run at stations.

        Parameters
        ----------
        slots
            With one, rows do not travel, and nothing is to be gained.
        overhead_s
            Time of the step in which no site worked.
        """
        if not joins or slots == 1:
            return LayoutVotes(), {}
        step_hops = max((join.hops for join in joins if join.at_stations), default=1)
        overhead_s = min(overhead_s, FADE * self.overhead_s)
        hop_s = HOP_SHARE * overhead_s / step_hops
        votes, wanted = {}, {}
        for join in joins:
            busy_s = _busy_s(join.query, reports)
            if not busy_s:  # a step without rows says nothing
                votes[join.query] = self.votes.get(join.query, 0)
                continue
            spread_s, alone_s = busy_s / sites + (join.hops - 1) * hop_s, busy_s
            now_s, other_s = (spread_s, alone_s) if join.at_stations else (alone_s, spread_s)
            votes[join.query] = self.votes.get(join.query, 0) + 1 if now_s > CLEARLY * other_s else 0
            if votes[join.query] >= BOUNDARIES:
                wanted[join.query] = not join.at_stations
        return LayoutVotes(votes, overhead_s), wanted

    def to_json(self) -> dict[str, Any]:
        return {"votes": dict(self.votes), "overheadS": self.overhead_s} if self.votes else {}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayoutVotes:
        return cls(dict(data.get("votes", {})), data.get("overheadS", math.inf))


def _busy_s(query: str, reports: Sequence[SiteReport]) -> float:
    trees = (report.joins[query].busy_s for report in reports if query in report.joins)
    return sum(trees) + sum(report.at_stations_s.get(query, 0.0) for report in reports)

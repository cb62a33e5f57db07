"""What a join costs at stations if each row takes its own order, and if all rows take the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.adapt.eddy.lottery import Station, draw, path_costs

UPKEEP = 0.04
"""What an eddy costs beside the rows that the lottery draws, as part of the work: stations of lower rank have
blocks and joins of their own. An estimate: with both, a steady load took 1.04 to 1.07."""


@dataclass(frozen=True, slots=True)
class OrderCosts:
    """Costs in units of their own: only their ratio counts.

    Attributes
    ----------
    surprised
        Whether some station was far from what was expected of it in the last batch.
    """

    eddy: float
    fixed: float
    surprised: bool = False

    @property
    def fixed_is_cheaper(self) -> bool:
        return self.fixed < self.eddy

    @classmethod
    def of(cls, choices: Iterable[tuple[float, Sequence[Station]]], *, surprised: bool = False) -> OrderCosts:
        """The costs of all choices that a join has.

        Parameters
        ----------
        choices
            Of each, the rows that choose, and what is known of the stations.

        Examples
        --------
        Where one station is better for all rows, it costs more to go on looking:

        >>> OrderCosts.of([(100.0, [Station.of(0.1), Station.of(2.0)])]).fixed_is_cheaper
        True
        """
        eddy = fixed = 0.0
        for rows, stations in choices:
            costs = path_costs(stations)
            best = float(costs.min(axis=1).mean())
            eddy += rows * best * (1.0 + draw(stations).regret + UPKEEP)
            fixed += rows * float(costs.mean(axis=0).min())
        return cls(eddy, fixed, surprised)

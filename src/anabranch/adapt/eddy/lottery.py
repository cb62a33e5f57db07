"""Which station rows take first: tickets, back-pressure, and a lottery among those that are not the best.

Zhou, COSMOS, section 5.2.1. A station gets a ticket for a row that it is given and loses one for a row that
comes back: it holds `1 - selectivity` tickets for each row, or none. Its price is what a row costs there,
more where its sites are slow or busy (back-pressure). Tickets by price are the *rank*, by which joins are
ordered best: rows go to the station of the highest rank. Where no station has tickets, the price decides.

Stations of lower rank get rows, too, or nobody would see them improve. They draw them by lottery, as
many as cost `REGRET` of the whole work, so that an eddy over steady data stays close to the best fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from anabranch.adapt.measures.statistics import Floats, Ints

REGRET = 0.02
"""Part of the work that learning may cost, all other stations together."""
MOST_DRAWN, LEAST_DRAWN = 1 / 32, 1 / 1024
"""Of all rows, what the lottery gives to one other station."""
LEAST_TICKETS = 0.05
"""Tickets for each row that may be chance: a station that has no more holds none."""
MAKING = 0.5
"""What making a joined row costs, where taking in, keeping and probing a row costs 1."""
LOOK_EVERY = 8
"""Batches between two lotteries while things are as expected."""
LOOK_SELDOM = 64
"""The same while all rows take one order."""
ENOUGH_ROWS = 256.0
"""Rows of one lottery from which a station is known well enough while things are as expected."""
SAMPLE = 512
"""Rows that are imagined to weigh what the lottery costs."""


class DecidedBy(StrEnum):
    """What decided where rows go."""

    LOTTERY = "lottery"
    BACK_PRESSURE = "back-pressure"
    FIXED = "fixed order"
    """One order for all rows, because nothing is gained by choosing row by row."""
    NOTHING = "nothing is known"


@dataclass(frozen=True, slots=True, eq=False)
class Station:
    """A station that rows may take next, as an eddy sees it.

    Attributes
    ----------
    selectivity
        Rows that come of one row; one number, or one for each partition.
    pressure
        Price of a row, 1 at a usual site: how slow and how busy its sites are, and the way there.
    weights
        How rows are spread over the partitions.
    """

    selectivity: Floats
    pressure: Floats
    weights: Floats

    @classmethod
    def of(cls, selectivity: float, *, pressure: float = 1.0) -> Station:
        return cls(np.array([selectivity]), np.array([pressure]), np.ones(1))

    @property
    def price(self) -> Floats:
        return self.pressure * (1.0 + MAKING * self.selectivity)

    @property
    def rank(self) -> Floats:
        """Tickets by price; below 0 where more rows come back than went there."""
        return (1.0 - self.selectivity) / self.price

    @property
    def mean_rank(self) -> float:
        """The same for all rows together."""
        return float(np.average(self.rank, weights=self.weights))

    @property
    def tickets(self) -> float:
        """What it holds for each row, on average."""
        held = np.maximum(0.0, 1.0 - self.selectivity)
        return float(np.average(held, weights=self.weights))


@dataclass(frozen=True, slots=True)
class Draw:
    """How rows are shared out among stations.

    Attributes
    ----------
    drawn
        Part of the rows that the lottery gives to each, whatever its rank; the others follow the ranks.
    regret
        What the lottery costs, as part of the whole work.
    """

    drawn: tuple[float, ...]
    tickets: tuple[float, ...]
    by: DecidedBy
    regret: float = 0.0

    def in_turn(self, batch: int, *, rows: float, every: int = LOOK_EVERY) -> Draw:
        """The same where nothing unexpected happens: the lottery is held now and then, for more rows at once.

        A station that gets few rows costs as much as its blocks and joins do, in every batch that has any.
        What it gets stays there for a window, and is met by whatever comes: no more than is needed.

        Parameters
        ----------
        rows
            That choose in a batch.
        every
            Batches between two lotteries.
        """
        if self.by is DecidedBy.NOTHING:
            return self
        now = every if batch % every == 0 else 0
        most = min(MOST_DRAWN, max(LEAST_DRAWN, ENOUGH_ROWS / max(rows, 1.0)))
        return replace(self, drawn=tuple(min(now * part, most) for part in self.drawn))


def draw(stations: Sequence[Station | None]) -> Draw:
    """Weigh stations against each other; None is one of which nothing is known yet.

    >>> draw([Station.of(0.2), Station.of(1.0)]).by.value
    'lottery'
    >>> draw([Station.of(2.0), Station.of(1.0)]).by.value
    'back-pressure'
    """
    known = [station for station in stations if station is not None]
    tickets = tuple(0.0 if s is None or s.tickets < LEAST_TICKETS else s.tickets for s in stations)
    if len(known) < len(stations):
        even = 1.0 / len(stations)
        return Draw((even,) * len(stations), tickets, DecidedBy.NOTHING)
    costs = path_costs(known)
    best = costs.min(axis=1).mean()
    dearer = (costs.mean(axis=0) - best) / best
    allowed = REGRET / max(1, len(known) - 1) / np.maximum(dearer, 1e-9)
    by = DecidedBy.LOTTERY if any(t > 0 for t in tickets) else DecidedBy.BACK_PRESSURE
    # Where no station is selective, it is worth more to know when one is.
    drawn = np.clip(allowed, LEAST_DRAWN if by is DecidedBy.LOTTERY else 4 * LEAST_DRAWN, MOST_DRAWN)
    return Draw(tuple(drawn.tolist()), tickets, by, float((drawn * dearer).sum()))


def path_costs(stations: Sequence[Station]) -> Floats:
    """What rows cost that go to each station first and then by rank to the others; one line per imagined row.

    >>> path_costs([Station.of(0.0), Station.of(1.0)])[0].tolist()
    [1.0, 2.5]
    """
    parts = max(len(s.selectivity) for s in stations)
    rows = SAMPLE if parts > 1 else 1
    rng = np.random.default_rng(7)
    chosen = [_sampled(s, rows, rng) for s in stations]
    selectivity, price, rank = (
        np.stack([values[at] for values, at in zip(all_of, chosen, strict=True)], axis=1)
        for all_of in (
            [s.selectivity for s in stations],
            [s.price for s in stations],
            [s.rank for s in stations],
        )
    )
    order = np.argsort(-rank, axis=1)
    costs = np.zeros((rows, len(stations)))
    at = np.arange(rows)
    for first in range(len(stations)):
        left, costs[:, first] = selectivity[:, first].copy(), price[:, first]
        for place in range(len(stations)):
            station = order[:, place]
            others = station != first
            costs[:, first] += np.where(others, left * price[at, station], 0.0)
            left = np.where(others, left * selectivity[at, station], left)
    return costs


def _sampled(station: Station, rows: int, rng: np.random.Generator) -> Ints:
    if len(station.selectivity) == 1:
        return np.zeros(rows, dtype=np.int64)
    weights = station.weights / station.weights.sum()
    return rng.choice(len(weights), size=rows, p=weights)

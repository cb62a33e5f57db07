"""What the eddies of all sites know together: tickets are exchanged once a batch, here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anabranch.adapt.eddy.account import Account
from anabranch.adapt.eddy.choice import StationChoice
from anabranch.adapt.eddy.lottery import LOOK_EVERY, LOOK_SELDOM, DecidedBy, Draw, Station, draw
from anabranch.adapt.eddy.order_costs import OrderCosts
from anabranch.adapt.eddy.pressure import Pressure
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.site_report import SiteReport, StationReport
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.station_router import PARTS, StationRouter, Ways

RANK_SCALE = 1000
"""Ranks are told in so many parts of a ticket."""


@dataclass(frozen=True, slots=True, eq=False)
class EddyState:
    """Accounts of stations; a value that the manifest keeps.

    Attributes
    ----------
    accounts
        By the state that keeps rows at a station.
    favourites
        By choice, the station that most rows took: a change is an event.
    """

    accounts: Mapping[str, Account] = field(default_factory=dict)
    pressure: Pressure = field(default_factory=Pressure)
    favourites: Mapping[str, str] = field(default_factory=dict)

    def after(
        self, choices: Sequence[StationChoice], sites: Sequence[SiteReport], partition_map: PartitionMap
    ) -> EddyState:
        """The state after a step; what no query asks for any more is forgotten."""
        if not choices:
            return EddyState()
        seen: dict[str, StationReport] = {}
        for site in sites:
            for state, report in site.stations.items():
                seen.setdefault(state, StationReport()).add(report)
        accounts = {}
        for choice in choices:
            # A step without new rows says nothing about the way of rows.
            came = any(seen[state].arrived.any() for state in choice.states if state in seen)
            for state in choice.states:
                account = self.accounts.get(state) or Account.new(PARTITIONS if choice.is_first else 1)
                accounts[state] = account.after(seen[state]) if came and state in seen else account
        return EddyState(accounts, self.pressure.after(sites, partition_map.sites), self.favourites)

    def order_costs(self, choices: Sequence[StationChoice], at: PartitionMap) -> dict[str, OrderCosts]:
        """By query of whose stations enough is known: what orders cost."""
        by_query: dict[str, list[StationChoice]] = {}
        for choice in choices:
            for query in choice.queries:
                by_query.setdefault(query, []).append(choice)
        found = {}
        for query, mine in by_query.items():
            accounts = [self.accounts.get(state) for choice in mine for state in choice.states]
            if all(account is not None and account.is_known for account in accounts):
                weighed = [(self._rows(c), [s for s in self._stations(c, at) if s is not None]) for c in mine]
                surprised = any(account is not None and account.surprised for account in accounts)
                found[query] = OrderCosts.of(weighed, surprised=surprised)
        return found

    def _rows(self, choice: StationChoice) -> float:
        """Rows that choose in a batch."""
        return sum(self.accounts[state].rows for state in choice.states if state in self.accounts)

    def decided(
        self,
        batch: int,
        choices: Sequence[StationChoice],
        at: PartitionMap,
        *,
        fixed: frozenset[str] = frozenset(),
    ) -> EddyDecision:
        """How rows choose in the next step.

        Parameters
        ----------
        fixed
            Queries whose rows all take the same order.
        """
        ways, told, favourites, events = {}, [], {}, []
        for choice in choices:
            stations = self._stations(choice, at)
            outcome = draw(stations)
            is_fixed = choice.queries <= fixed and outcome.by is not DecidedBy.NOTHING
            known = [self.accounts[s] for s in choice.states if s in self.accounts]
            if not any(account.surprised for account in known):
                every = LOOK_SELDOM if is_fixed else LOOK_EVERY
                outcome = outcome.in_turn(batch, rows=self._rows(choice), every=every)
            if is_fixed:
                outcome = replace(outcome, by=DecidedBy.FIXED)
            ways[choice.states] = _ways(outcome, stations)
            told.append(self._told(choice, outcome, stations))
            favourite, key = told[-1]["favourite"], " ".join((choice.query, *choice.aliases))
            before = self.favourites.get(key)
            if favourite is not None:
                favourites[key] = favourite
            if before is not None and favourite is not None and favourite != before:
                events.append(_changed(batch, choice, before, told[-1]))
        state = EddyState(self.accounts, self.pressure, favourites)
        return EddyDecision(state, StationRouter(ways), tuple(told), tuple(events))

    def _stations(self, choice: StationChoice, at: PartitionMap) -> list[Station | None]:
        accounts = [self.accounts.get(state) for state in choice.states]
        known = [account for account in accounts if account is not None]
        # Rows stay as long at one station as at another: all of them together tell how long.
        lifetime = float(sum(a.stored.sum() for a in known)) / max(1.0, sum(a.rows for a in known))
        pressure = self.pressure.by_partition(at) if choice.is_first else np.ones(1)
        return [
            Station(account.selectivity(lifetime=lifetime), pressure, account.arrived + 1.0)
            if account is not None and account.is_known
            else None
            for account in accounts
        ]

    def _told(
        self, choice: StationChoice, outcome: Draw, stations: Sequence[Station | None]
    ) -> dict[str, Any]:
        rows = [self.accounts[s].rows if s in self.accounts else 0.0 for s in choice.states]
        ranks = [None if s is None else s.mean_rank for s in stations]
        known = [rank for rank in ranks if rank is not None]
        best = choice.stations[ranks.index(max(known))] if len(known) == len(ranks) else None
        return {
            "query": choice.query,
            "references": list(choice.aliases),
            "stations": list(choice.stations),
            "tickets": [round(t, 3) for t in outcome.tickets],
            "selectivities": [
                None if s is None else round(float(np.average(s.selectivity, weights=s.weights)), 3)
                for s in stations
            ],
            "shares": [round(r / max(1.0, sum(rows)), 3) for r in rows],
            "drawn": [round(d, 4) for d in outcome.drawn],
            "decidedBy": str(outcome.by),
            "favourite": best,
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "accounts": {state: account.to_json() for state, account in self.accounts.items()},
            "pressure": self.pressure.to_json(),
            "favourites": dict(self.favourites),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EddyState:
        accounts = data.get("accounts", {})
        return cls(
            {state: Account.from_json(account) for state, account in accounts.items()},
            Pressure.from_json(data.get("pressure", ())),
            data.get("favourites", {}),
        )


@dataclass(frozen=True, slots=True, eq=False)
class EddyDecision:
    """A decision, and what is told about it: tickets, and what decided."""

    state: EddyState
    router: StationRouter
    told: tuple[Mapping[str, Any], ...]
    events: tuple[Event, ...]


def _ways(outcome: Draw, stations: Sequence[Station | None]) -> Ways:
    """The same in whole numbers, as rows on their way are sorted out by them."""
    drawn = tuple(int(d * PARTS) for d in outcome.drawn)
    if any(s is None for s in stations):
        return Ways.even(len(stations))
    ranks = [s.rank for s in stations if s is not None]
    if outcome.by is DecidedBy.FIXED:  # one rank for all rows
        ranks = [np.array([s.mean_rank]) for s in stations if s is not None]
    return Ways(tuple(tuple(np.rint(r * RANK_SCALE).astype(int).tolist()) for r in ranks), drawn)


def _changed(batch: int, choice: StationChoice, before: str, told: Mapping[str, Any]) -> Event:
    tickets = ", ".join(
        f"{station} {held:g}" for station, held in zip(choice.stations, told["tickets"], strict=True)
    )
    message = (
        f"query {choice.query}: rows of {' '.join(choice.aliases)} go to station {told['favourite']} first, "
        f"no longer to {before}; tickets per row: {tickets}; decided by {told['decidedBy']}"
    )
    return Event(batch, EventKind.ORDER_CHANGED, message, told)

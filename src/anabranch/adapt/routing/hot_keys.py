"""Hot keys: which keys of equi-joins and of groups are spread over the sites, and when they are taken back.

A key is hot when it alone is more than a site's fair share of the work: then no partition map can
balance it. It stays hot until it has been less than half of that for a while, so that a key on the edge does
not come and go. Becoming hot needs no work: probing keeps no intermediate rows, and all rows of the key are
in blocks. When a key of a join cools, intermediate states of its partition are computed anew from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.routing.spreadable import Spreadable, spreadable
from anabranch.adapt.routing.turns import lanes
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING, PartitionSet
from anabranch.exchange.split_router import HotKey

HOT = 1.0
"""Share of the work, counted in a site's fair share, above which a key becomes hot."""
COLD = 0.5
"""And below which it cools."""
PATIENCE = 4
"""Boundaries in a row at which it must be so before it cools."""
LEAST_WORK = 20_000
"""Rows and pairs of a batch below which no key is worth spreading."""
MOST_KEYS = 16
"""Of a join, or of an aggregate."""


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The hot keys of a session.

    Attributes
    ----------
    cool
        By state and key, for how many boundaries it has had little work.
    """

    keys: tuple[HotKey, ...] = ()
    cool: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def of(self, states: Iterable[str]) -> list[HotKey]:
        """Keys of a set of inputs."""
        wanted = set(states)
        return [key for key in self.keys if wanted & set(key.states)]

    def to_json(self) -> dict[str, Any]:
        cooling = [[*key, n] for key, n in self.cool.items()]
        return {"keys": [key.to_json() for key in self.keys], "cooling": cooling}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], joins: Joins) -> HotKeys:
        """Go on where a manifest left off; inputs of queries that are gone are forgotten."""
        known = {state for group in spreadable(joins) for state in group.states}
        keys = (HotKey.from_json(key) for key in data.get("keys", ()))
        left = (replace(key, states=tuple(s for s in key.states if s in known)) for key in keys)
        cool = {(state, address): n for state, address, n in data.get("cooling", ())}
        return cls(tuple(key for key in left if key.states), cool)


def choose_hot_keys(
    known: HotKeys, observed: Observed, after: PartitionMap
) -> tuple[HotKeys, dict[str, PartitionSet], tuple[Event, ...]]:
    """The hot keys of the next step, partitions with keys that cool, by query, and reasons."""
    keys: list[HotKey] = []
    cool: dict[tuple[str, int], int] = {}
    cooled: dict[str, PartitionSet] = {}
    events: list[Event] = []
    if not known.keys and not observed.heavy:
        return known, {}, ()
    concerned = observed.heavy.keys() | {state for key in known.keys for state in key.states}
    for group in spreadable(observed.joins):
        if concerned.isdisjoint(group.states):
            continue
        choice = _Choice(group, known, observed, after)
        mine = choice.made()
        keys += mine
        cool |= choice.cool
        events += choice.events
        if choice.cooled and not group.grouped:
            cooled |= dict.fromkeys(group.queries, choice.cooled)
    return HotKeys(tuple(keys), cool), cooled, tuple(events)


@dataclass(slots=True)
class _Choice:
    """The choice for states that have their hot keys in common."""

    group: Spreadable
    known: HotKeys
    observed: Observed
    after: PartitionMap
    cool: dict[tuple[str, int], int] = field(default_factory=dict)
    cooled: PartitionSet = NOTHING
    events: list[Event] = field(default_factory=list)

    def made(self) -> list[HotKey]:
        hot, shares = self.known.of(self.group.states), self._shares()
        wanted = {key.address for key in hot if self._stays(key, shares)}
        if self._may_spread and self._total() >= LEAST_WORK:
            new = sorted(((share, address) for address, share in shares.items() if share > HOT), reverse=True)
            wanted |= {address for _, address in new[:MOST_KEYS] if self._is_free(address)}
        self._tell(hot, wanted, shares)
        lane_of = lanes(self.after, hot[0].lanes if hot else (), NOTHING, salt=0)
        lane = tuple(lane_of[site] for site in sorted(lane_of))
        found = self.group.states, self._largest(), lane, self.group.stays
        return [HotKey(address, *found) for address in sorted(wanted)]

    @property
    def _may_spread(self) -> bool:
        settings = self.observed.settings
        if self.group.grouped and settings.memory_budget:  # all sites would hold the state of the group open
            return False
        return settings.hot_keys == "auto" and not settings.copies and self.after.sites > 1

    def _stays(self, key: HotKey, shares: Mapping[int, float]) -> bool:
        """Whether a hot key stays so; it does where others still work on what it would need."""
        name = self.group.states[0], key.address
        times = self.known.cool.get(name, 0)
        if any(site.rows for site in self.observed.sites):  # a step without rows says nothing
            times = 0 if shares.get(key.address, 0.0) >= COLD else times + 1
        if not self._may_spread:
            times = PATIENCE
        if times >= PATIENCE and not self._is_relocating(key.home):
            self.cooled |= PartitionSet.of([key.home])
            return False
        self.cool[name] = times
        return True

    def _is_free(self, address: int) -> bool:
        """Whether all rows of a key are in blocks: none of its partition waits, and no track ends there."""
        home = HotKey(address, (), None, ()).home
        return not self.observed.pending_rows[home] and not self._is_relocating(home)

    def _is_relocating(self, partition: int) -> bool:
        ending = self.observed.tracks.ending
        return any(t.query in self.group.queries and partition in t.partitions for t in ending)

    def _rows(self) -> dict[int, int]:
        """New rows of each heavy key."""
        found: dict[int, int] = {}
        for state in self.group.states:
            for address, rows in self.observed.heavy.get(state, ()):
                found[address] = found.get(address, 0) + rows
        return found

    def _work(self) -> dict[int, float]:
        """Rows and pairs by partition; those of these hot keys under -1."""
        found: dict[int, float] = {-1: 0.0}
        for site in self.observed.sites:
            found[-1] += sum(site.split_pairs.get(query, 0) for query in self.group.queries)
            for partition, rows, pairs in site.partitions:
                found[partition] = found.get(partition, 0.0) + rows + pairs
        return found

    def _total(self) -> float:
        """Rows and pairs of all queries, with those of all hot keys."""
        hot = {(state, key.address) for key in self.known.keys if not key.stays for state in key.states}
        heavy = ((state, *found) for state, keys in self.observed.heavy.items() for found in keys)
        spread = sum(rows for state, address, rows in heavy if (state, address) in hot)
        for site in self.observed.sites:
            spread += sum(site.split_pairs.values())
            spread += sum(rows + pairs for _, rows, pairs in site.partitions)
        return float(spread)

    def _shares(self) -> dict[int, float]:
        """Work of each heavy key ÷ what a site would have if all had the same."""
        rows, work = self._rows(), self._work()
        hot = {key.address for key in self.known.of(self.group.states)}
        hot_rows = sum(n for address, n in rows.items() if address in hot) or 1
        fair = max(self._total() / max(self.after.sites, 1), 1.0)
        arrived: dict[int, int] = {}
        for site in self.observed.sites:
            for partition, new, _ in site.partitions:
                arrived[partition] = arrived.get(partition, 0) + new
        shares = {}
        for address, n in rows.items():
            home = HotKey(address, (), None, ()).home
            if address in hot:
                does = n + work[-1] * n / hot_rows
            else:  # its part of what its partition does, by rows
                does = work.get(home, 0.0) * min(1.0, n / max(arrived.get(home, 0), 1))
            shares[address] = does / fair
        return shares

    def _largest(self) -> str | None:
        """The input with the most new rows of heavy keys, which need not be copied."""
        heavy = self.observed.heavy
        rows = {
            s: sum(n for _, n in heavy.get(s, ())) for s in self.group.states if s not in self.group.repeated
        }
        return max(rows, key=lambda state: (rows[state], state)) if rows else None

    def _tell(self, before: list[HotKey], wanted: set[int], shares: Mapping[int, float]) -> None:
        known = {key.address for key in before}
        names = ", ".join(self.group.queries)
        for address in sorted(wanted ^ known):
            hot = address in wanted
            told = f"is {shares.get(address, 0.0):.1f} times a site's fair share of the work"
            what = "group" if self.group.grouped else "key"
            message = f"queries {names}: {what} {address & (1 << 64) - 1:016x} {told}: "
            message += f"it is spread over {self.after.sites} sites" if hot else "it is taken back"
            data = {"queries": list(self.group.queries), "key": address, "share": shares.get(address, 0.0)}
            kind = EventKind.KEY_SPREAD if hot else EventKind.KEY_COOLED
            self.events.append(Event(self.observed.batch, kind, message, data))

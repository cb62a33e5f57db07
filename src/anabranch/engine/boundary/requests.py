"""What users ask of a running session: other settings, and changes of plans at the next boundary."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.plans.plan_state import PlanState
from anabranch.adapt.tracks.tracks import Migration, Tracks
from anabranch.engine.settings import MEBIBYTE, Settings
from anabranch.engine.sinks.sink import Sink
from anabranch.errors import ConfigError
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.logical import Query
from anabranch.plan.tree import Plan, parse_plan
from anabranch.queries.catalog import Catalog
from anabranch.queries.changes import check_change
from anabranch.queries.turnover import Change, Drop
from anabranch.state.block import BlockMeta


@dataclass(frozen=True, slots=True)
class Asked:
    """A change of the queries, and the sink of one that comes."""

    change: Change
    sink: Sink | None = None
    letter: str | None = None
    """Name of the letter that asked for it; None if it was the program."""


class Requests:
    """Requests that no published step has carried out yet. Users ask in threads of their own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.migrations: tuple[Migration, ...] = ()
        self._asked: list[Asked] = []
        """Queries that are to come and go."""
        self._pending: dict[str, Change] = {}
        """By query, the last of what is asked."""
        self.refused: tuple[tuple[str, str], ...] = ()
        """Letters that ask for what cannot be, and why."""
        self._lock = threading.Lock()

    def change(self, values: dict[str, Any], *, cores: int) -> None:
        """Ask for other settings."""
        with self._lock:
            texts = [(name, str(value)) for name, value in values.items()]
            changed = self.settings.with_values(texts).resolved(cores)
            if changed.end_of_input != self.settings.end_of_input:
                raise ConfigError(
                    "end_of_input cannot change while the session runs: give it at the start, as "
                    "session.start(endOfInput=True, availableNow=True)"
                )
            if changed.plan_ahead != self.settings.plan_ahead:
                raise ConfigError("plan_ahead cannot change while the session runs: set it before the start")
            self.settings = changed

    def migrate(self, migrations: Sequence[Migration]) -> None:
        """Ask sites to change plans."""
        with self._lock:
            self.migrations += tuple(migrations)

    def ask(self, asked: Asked, catalog: Catalog) -> None:
        """Ask for a query to come or go."""
        with self._lock:
            check_change(asked.change, catalog, self._pending)
            self._asked.append(asked)
            self._pending[asked.change.name] = asked.change

    @property
    def changes(self) -> tuple[Asked, ...]:
        """Queries that are to come and go, in the order in which that was asked."""
        return tuple(self._asked)

    def coming(self, name: str) -> Query | None:
        """A query that is to come, or to change."""
        found = self._pending.get(name)
        return None if found is None or isinstance(found, Drop) else found.query

    def refuse(self, letter: str, why: str) -> None:
        """Answer a letter with the next step."""
        with self._lock:
            self.refused += ((letter, why),)

    def knows(self, letter: str) -> bool:
        """Whether a letter has been read and waits for the next step."""
        return any(asked.letter == letter for asked in self.changes) or letter in dict(self.refused)

    def carried_out(
        self,
        taken: Sequence[Migration],
        changed: Sequence[Asked],
        mail: Sequence[tuple[str, str]],
        *,
        postponed: Sequence[Migration],
    ) -> None:
        """Forget the first requests, which a published step has taken, but for those that have to wait."""
        with self._lock:
            self._asked = self._asked[len(changed) :]
            self._pending = {asked.change.name: asked.change for asked in self._asked}
            self.refused = tuple(one for one in self.refused if one not in mail)
            self.migrations = (*postponed, *self.migrations[len(taken) :])


@dataclass(frozen=True, slots=True)
class Migrations:
    """Changes of plans as a user words them."""

    query: str
    plan: str
    sites: tuple[int, ...]
    strategy: str

    def checked(
        self,
        tracks: Tracks,
        joins: Joins,
        *,
        sites: int,
        plans: PlanState,
        blocks: Sequence[BlockMeta],
        room: int | None,
    ) -> tuple[Migration, ...]:
        """One for each site; raises ConfigError where they make no sense, or keep more than there is room.

        Parameters
        ----------
        sites
            Those that there will be from the next boundary on.
        blocks
            What the next step will start from.
        room
            Bytes for intermediate rows; None is any number.
        """
        if self.query not in tracks.plans:
            raise ConfigError(f"there is no join {self.query!r}: choose from {', '.join(tracks.plans)}")
        if self.strategy not in list(Strategy):
            raise ConfigError(f"strategy {self.strategy!r}: choose from {', '.join(Strategy)}")
        if self.strategy == Strategy.PARALLEL_TRACK and self.query in joins.unending:
            raise ConfigError(
                f"{self.query!r} has a window [RANGE UNBOUNDED], whose rows never leave: a parallel track "
                "would not end. Use strategy 'moving_state', or give the window a length"
            )
        if self.strategy == Strategy.PARALLEL_TRACK and self.query in joins.by_moving:
            raise ConfigError(
                f"{self.query!r} has joins in common with other queries, whose rows are kept once for all: "
                "use strategy 'moving_state'"
            )
        if unknown := [site for site in self.sites if not 0 <= site < sites]:
            raise ConfigError(f"there is no site {unknown[0]}: choose from 0 to {sites - 1}")
        tree = _tree(self.plan, aliases=parse_plan(tracks.plans[self.query][0]).aliases)
        how = Strategy(self.strategy)
        migrations = tuple(Migration(self.query, site, str(tree), how) for site in self.sites)
        check_room(migrations, plans, joins=joins, blocks=blocks, room=room)
        return migrations


def _tree(plan: str, *, aliases: Sequence[str]) -> Plan:
    try:
        tree = parse_plan(plan)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if sorted(tree.aliases) != sorted(aliases):
        raise ConfigError(f"plan {plan} must join each of {', '.join(sorted(aliases))} once")
    return tree


def check_room(
    migrations: Sequence[Migration],
    known: PlanState,
    *,
    joins: Joins,
    blocks: Sequence[BlockMeta],
    room: int | None,
) -> None:
    """Refuse plans that are predicted to keep more intermediate rows than there is room for.

    Parameters
    ----------
    blocks
        What the next step will start from.
    room
        Bytes; None is any number.
    """
    for change in migrations if room is not None else ():
        assert room is not None
        tree = parse_plan(change.plan)
        needed = known.predicted_bytes(joins, change.query, site=change.site, plan=tree, blocks=blocks)
        if needed is not None and needed > room:
            raise ConfigError(
                f"plan {change.plan} of query {change.query!r} is predicted to keep "
                f"{needed / MEBIBYTE:,.1f} MiB of intermediate rows at site {change.site}, and "
                f"{room / MEBIBYTE:,.1f} MiB may be (work_memory_mb): choose another plan, set a larger "
                "work_memory_mb, or ask for it with force=True"
            )

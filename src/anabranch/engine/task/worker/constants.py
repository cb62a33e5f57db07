"""Constants: what the slots of all steps are told once, as long as no query comes or goes.

They lie in a file of the checkpoint, so that a task names them by their digest, and a worker process reads
them when it meets the digest for the first time. The file is a pickle. A pickle may run any code, so a worker
looks at nothing but bytes until they have the digest, a cryptographic one, that came with the task: over the
channel of Spark that brings the code of the task itself. Who can write to the checkpoint gains nothing by it.
No other session reads it, which may run another version: names have the writer's epoch in them.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.task.arrival.key_sketches import SketchedKey, sketched_keys
from anabranch.engine.task.arrival.wire import Wire
from anabranch.engine.task.home_parts import HomeParts
from anabranch.engine.task.results.live_split import LiveSplit
from anabranch.engine.task.sites.site_work import TrackCompiler
from anabranch.engine.task.sites.step_work import StepWork
from anabranch.exchange.partition_map import PartitionMap
from anabranch.language.expressions.user_predicates import UserPredicate
from anabranch.plan.inputs import Layout
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import Query
from anabranch.plan.roster_change import RosterChange
from anabranch.state.errors import CorruptionError
from anabranch.state.paths import CONSTANTS
from anabranch.state.stamp import Stamp, stamp_of
from anabranch.state.storage import Storage

MOST_PARTS = 64
"""Parts of steps whose work a process remembers."""
KEPT = 8
"""Constants that a process remembers: those of some sessions, as they were and as they are."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What follows from the streams and queries of a session."""

    layout: Layout
    wire: Wire
    streams: tuple[str, ...]
    times: Mapping[str, str]
    """By stream the name of its time column."""
    plans: tuple[LocalPlan, ...]
    """The plan of every query, where no site has one of its own."""
    predicates: tuple[UserPredicate, ...] = ()
    """Functions of users that queries call."""


@dataclass(frozen=True, slots=True)
class ConstantsFile:
    """Where constants, or a change of members, lie, and how to know that they are what was written."""

    name: str
    digest: str


class Compiled:
    """Constants, ready for work: plans of tracks are compiled once in every process."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.compiler = TrackCompiler(constants.layout, constants.plans)
        self.defaults = {p.query.name: str(p.plan) for p in constants.plans if p.has_tracks}
        """By join its plan, where no site has one of its own."""
        self._work: dict[frozenset[str], tuple[Tracks, PartitionMap, StepWork]] = {}
        """By queries that do not work: what was asked last, and the answer."""
        self._homes: tuple[bytes, frozenset[str], HomeParts] | None = None
        self._splits: dict[str, LiveSplit] = {}
        self._heard: tuple[ConstantsFile, ...] = ()
        """Changes that splits have gone through."""
        self._changes: list[RosterChange] = []

    @cached_property
    def sketched(self) -> tuple[SketchedKey, ...]:
        """Keys of joins with cycles."""
        return sketched_keys(self.constants.layout)

    def work(self, tracks: Tracks, partition_map: PartitionMap, failed: frozenset[str]) -> StepWork:
        """The work of all sites.

        Parameters
        ----------
        tracks
            Of queries that it does not name, all sites run the plan that is known.
        """
        known = self._work.get(failed)
        if known is not None and known[0] is tracks and known[1] is partition_map:
            return known[2]
        whole = tracks.for_queries(self.defaults, partition_map.sites)
        by_site = self.compiler.work(whole, partition_map, failed)
        if known is not None and known[2].by_site is by_site:
            found = known[2]
        else:
            found = StepWork(by_site, self.constants.layout.shared)
        if known is None and len(self._work) >= MOST_PARTS:
            self._work.clear()
        self._work[failed] = tracks, partition_map, found
        return found

    def home_parts(self, homes: bytes, failed: frozenset[str]) -> HomeParts:
        """Who is at home where; the same objects as long as nobody moves."""
        known = self._homes
        if known is None or known[:2] != (homes, failed):
            known = homes, failed, HomeParts.of(self.constants.layout, homes, failed)
            self._homes = known
        return known[2]

    def split_of(self, query: Query, storage: Storage, roster: tuple[ConstantsFile, ...]) -> LiveSplit:
        """The members of a group after some changes; what this process has heard of is not read again."""
        if roster is not self._heard and roster != self._heard:
            if self._heard != roster[: len(self._heard)]:
                self._splits, self._heard, self._changes = {}, (), []
            for file in roster[len(self._heard) :]:
                change = roster_change(storage, file)
                self._changes.append(change)
                for name, known in self._splits.items():
                    _apply(known, name, change)
            self._heard = roster
        split = self._splits.get(query.name)
        if split is None:
            assert query.split is not None
            split = self._splits[query.name] = LiveSplit(query.split)
            for change in self._changes:
                _apply(split, query.name, change)
        return split


_known: OrderedDict[tuple[Storage, str], Compiled] = OrderedDict()


def keep_constants(storage: Storage, compiled: Compiled, stamp: Stamp) -> ConstantsFile:
    """Write constants for the workers; this process need not read them."""
    file = _kept(storage, compiled.constants, stamp)
    _remember(storage, file, compiled)
    return file


def keep_roster_change(storage: Storage, change: RosterChange, stamp: Stamp) -> ConstantsFile:
    """Write a change of members for the workers."""
    return _kept(storage, change, stamp)


def roster_change(storage: Storage, file: ConstantsFile) -> RosterChange:
    """Read a change of members."""
    found: RosterChange = _read(storage, file)
    return found


def _apply(split: LiveSplit, group: str, change: RosterChange) -> None:
    split.leave(change.left.get(group, ()))
    split.join(change.joined.get(group, ()))


def _kept(storage: Storage, told: Constants | RosterChange, stamp: Stamp) -> ConstantsFile:
    data = pickle.dumps(told, protocol=pickle.HIGHEST_PROTOCOL)
    digest = blake2b(data, digest_size=16).hexdigest()
    file = ConstantsFile(f"{CONSTANTS}/{stamp}-{digest}", digest)
    # Whoever starts after a power failure writes its own.
    storage.put_if_absent(file.name, data, durable=False)
    return file


def forget_constants(storage: Storage, current: Collection[ConstantsFile]) -> None:
    """Remove what this session, or an earlier one, has told its workers before."""
    names = {file.name for file in current}
    here = max((stamp for name in names if (stamp := stamp_of(name)) is not None), default=None)
    for name in storage.list(CONSTANTS):
        stamp = stamp_of(name)
        if name not in names and here is not None and stamp is not None and stamp <= here:
            storage.delete(name)


def compiled_constants(storage: Storage, file: ConstantsFile) -> Compiled:
    """The constants of a task, read when they are new to this process."""
    found = _known.get((storage, file.name))
    if found is None:
        found = Compiled(_read(storage, file))
        _remember(storage, file, found)
    return found


def _remember(storage: Storage, file: ConstantsFile, compiled: Compiled) -> None:
    _known[storage, file.name] = compiled
    while len(_known) > KEPT:
        _known.popitem(last=False)


def _read(storage: Storage, file: ConstantsFile) -> Any:
    data = storage.read(file.name)
    if (found := blake2b(data, digest_size=16).hexdigest()) != file.digest:
        advice = "Stop the session and start it again: it will write the file anew"
        raise CorruptionError(
            file.name, expected=f"digest {file.digest}", found=f"digest {found}", advice=advice
        )
    return pickle.loads(data)  # noqa: S301 - has the digest that came with the task

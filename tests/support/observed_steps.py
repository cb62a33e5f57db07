"""Steps as a decider observes them, made by hand: no session runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from anabranch.adapt.boundary.observed import BoundarySettings, Observed
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.tracks.tracks import Track, Tracks
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.inputs import Layout

NO_JOINS = Joins(Layout((), ()), {}, {}, {}, frozenset())


class LastingTracks:
    """Tracks that neither end nor settle, nor follow others."""

    def may_follow(self, track: Track, plan: str, owned: PartitionSet) -> bool:
        return False

    def is_over(self, track: Track) -> bool:
        return False

    def settled(self, tracks: Tracks) -> tuple[Tracks, Mapping[str, str]]:
        return tracks, {}


def observed_step(
    batch: int, here: PartitionMap, *, settings: BoundarySettings | None = None, **what: Any
) -> Observed:
    """A step of a session with no state, unless `what` says so."""
    nothing = np.zeros(PARTITIONS, np.int64)
    plain = Observed(
        batch,
        0,
        settings or BoundarySettings(sites=here.sites),
        here,
        Tracks({}),
        NO_JOINS,
        LastingTracks(),
        nothing,
        nothing,
    )
    return replace(plain, **what)

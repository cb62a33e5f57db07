"""An adaptation that decides at random: moves, spills, budgets and rescaling at every boundary."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.runtime.adaptation import Adaptation
from anabranch.runtime.admission import OPEN, Admission


@contextmanager
def restless(seed: int, *, rescales: bool = True) -> Iterator[None]:
    """While it lasts, sessions move partitions about and let rows wait for no reason at all."""
    rng = random.Random(seed)

    def after(self: Adaptation, batch: int, current: PartitionMap, *_: Any) -> tuple[PartitionMap, tuple[()]]:
        if rescales and rng.random() < 0.2:
            self.settings = replace(self.settings, sites=rng.randint(1, 9))
        moves = {rng.randrange(PARTITIONS): rng.randrange(current.sites) for _ in range(rng.randrange(90))}
        return current.moved(moves), ()

    def admission(self: Adaptation) -> Admission:
        if rng.random() < 0.4:
            return OPEN
        spilled = frozenset(p for p in range(PARTITIONS) if rng.random() < 0.3)
        return Admission({0: rng.randint(1, 5)} if rng.random() < 0.5 else {}, spilled)

    with mock.patch.object(Adaptation, "after", after), mock.patch.object(Adaptation, "admission", admission):
        yield

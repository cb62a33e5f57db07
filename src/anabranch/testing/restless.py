"""An adaptation that decides at random: moves, migrations, spills, budgets, rescaling at every boundary."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from anabranch.adapt.site_budgets import RowBudget
from anabranch.adapt.tracks import Migration, Tracks
from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.plan.migration_cost import Strategy
from anabranch.plan.tree import Join, Leaf, Plan, Probe, parse_plan
from anabranch.runtime.adaptation import Adaptation
from anabranch.runtime.admission import OPEN, Admission
from anabranch.runtime.batch_loop import BatchLoop, BatchSummary
from anabranch.runtime.steering import Steering


@contextmanager
def restless(seed: int, *, rescales: bool = True) -> Iterator[None]:
    """While it lasts, sessions move partitions about and let rows wait for no reason at all.

    What happens in a step depends on the seed and its number only, so that a step repeated after a crash
    decides the same.
    """
    rng = random.Random(seed)
    real_run = BatchLoop._run

    def run(self: BatchLoop, batch: int, step: int, **what: Any) -> BatchSummary:
        rng.seed(f"{seed} {batch} {step}")
        return real_run(self, batch, step, **what)

    def after(self: Adaptation, batch: int, current: PartitionMap, *_: Any) -> tuple[PartitionMap, tuple[()]]:
        if rescales and rng.random() < 0.2:
            self.settings = replace(self.settings, sites=rng.randint(1, 9))
        most = rng.choice((0, 1, 5, 90))
        moves = {rng.randrange(PARTITIONS): rng.randrange(current.sites) for _ in range(most)}
        return current.moved(moves), ()

    def admission(self: Adaptation) -> Admission:
        if rng.random() < 0.4:
            return OPEN
        spilled = frozenset(p for p in range(PARTITIONS) if rng.random() < 0.3)
        most = {site: rng.randint(1, 5) for site in range(9) if rng.random() < 0.4}
        budgets = {site: RowBudget(rows, waiting=4 * rows) for site, rows in most.items()}
        return Admission(budgets if rng.random() < 0.5 else {}, spilled)

    def migrations(_: Steering, batch: int, tracks: Tracks, *__: Any) -> tuple[list[Migration], tuple[()]]:
        return [
            Migration(query, site, str(any_plan(rng, parse_plan(plan).aliases)), rng.choice(list(Strategy)))
            for query, plans in tracks.plans.items()
            for site, plan in enumerate(plans)
            if rng.random() < 0.3
        ], ()

    def strategy(*_: Any) -> Strategy:
        return rng.choice(list(Strategy))

    with (
        mock.patch.object(BatchLoop, "_run", run),
        mock.patch.object(Adaptation, "after", after),
        mock.patch.object(Adaptation, "admission", admission),
        mock.patch.object(Steering, "_migrations", migrations),
        mock.patch.object(Steering, "_strategy", strategy),
    ):
        yield


def any_plan(rng: random.Random, aliases: Sequence[str]) -> Plan:
    """Any plan over some references: trees, cross products included, and probes without state."""
    if len(aliases) > 2 and rng.random() < 0.2:
        return Probe(tuple((a, *rng.sample(rest := sorted({*aliases} - {a}), len(rest))) for a in aliases))
    nodes: list[Plan] = [Leaf(alias) for alias in sorted(aliases)]
    while len(nodes) > 1:
        left, right = (nodes.pop(rng.randrange(len(nodes))) for _ in range(2))
        nodes.append(Join(left, right))
    return nodes[0]

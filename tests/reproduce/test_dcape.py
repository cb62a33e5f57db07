"""The D-CAPE experiments on few rows: what they measure is right; the claims are for the full runs."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from anabranch.adapt.balance.worth import Worth
from anabranch.engine.local_ingest import mix_longs
from anabranch.exchange.address import partition_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.dcape.dcape_grid import choice_check
from anabranch.reproduce.dcape.dcape_load import ACTIVE, SITES, Load
from anabranch.reproduce.dcape.dcape_replay import replay
from anabranch.reproduce.dcape.dcape_run import Measured, Setting, measure

SMALL = Load(60, 9, length_s=42, keys=700, values=4)
MOVES = {"balance_at": 5, "switch_at": 2}


def test_half_of_the_rows_are_on_one_of_eight_sites_and_100_partitions_have_any() -> None:
    batch = next(Load(4_000, 10).tables(mix_longs))
    partitions = partition_of(mix_longs(batch["a"].column("k").to_numpy()))
    rows = np.bincount(PartitionMap.even(SITES).as_array()[partitions], minlength=SITES)
    assert len(np.unique(partitions)) == ACTIVE
    assert rows[0] / rows.sum() == pytest.approx(0.5, abs=0.02)
    assert rows[1:].max() / rows[1:].min() < 1.2


def test_rates_of_b_and_c_fall_to_a_twentieth() -> None:
    batches = list(Load(100, 10, low_rate=5).tables(mix_longs))
    before, after = batches[5], batches[20]
    assert after["a"].num_rows == pytest.approx(before["a"].num_rows, rel=0.3)
    for name in ("b", "c"):
        assert after[name].num_rows == pytest.approx(before[name].num_rows / 20, rel=0.6)


@pytest.fixture(scope="module")
def runs() -> dict[str, Measured]:
    settings = {
        "none": Setting(),
        "mslb": Setting("mslb", **MOVES),
        "ptlb": Setting("ptlb", **MOVES),
        "lemma": Setting("ptlb", **MOVES, lemma=True),
        "both": Setting("auto", "auto"),
    }
    with mock.patch.object(Worth, "objection", return_value=None):  # as if the batches were large
        return {name: measure(SMALL, setting) for name, setting in settings.items()}


def test_every_setting_gives_the_same_results(runs: dict[str, Measured]) -> None:
    assert runs["none"].digest.rows > 0
    assert {run.digest for run in runs.values()} == {runs["none"].digest}


def test_moving_state_copies_at_once_what_parallel_track_never_does(runs: dict[str, Measured]) -> None:
    assert runs["mslb"].choice is Strategy.MOVING_STATE
    assert runs["ptlb"].choice is Strategy.PARALLEL_TRACK
    assert runs["mslb"].copied_bytes > 0
    assert runs["mslb"].rebuilt_rows > runs["none"].rebuilt_rows == 0
    assert runs["none"].copied_bytes == runs["ptlb"].copied_bytes == 0
    assert not runs["mslb"].tracks


def test_a_parallel_track_lasts_longer_by_the_papers_rule_than_by_ours(runs: dict[str, Measured]) -> None:
    assert runs["ptlb"].tracks
    assert runs["lemma"].tracks
    assert max(runs["ptlb"].tracks) < max(runs["lemma"].tracks)


def test_a_replay_queues_what_the_busiest_site_has_not_done() -> None:
    measured = Measured(
        busy_s=[[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]],
        results=[[10, 1], [10, 1], [10, 1]],
        rows=[100, 100, 100],
        state_rows=[5, 6, 7],
    )
    seen = replay(measured, 2.5)  # keeps up: a batch is done before the next has arrived
    assert seen.results.tolist() == [0, 11, 22]
    assert seen.tuples.tolist() == [100, 105, 106]
    behind = replay(measured, 1.0)
    assert behind.results.tolist() == [0, 0, 11]
    assert behind.apart.tolist() == [0, 1, 12]
    assert behind.tuples.tolist() == [100, 200, 205]


@pytest.mark.parametrize(("chosen", "holds"), [("mslb", True), ("ptlb", False)])
def test_a_choice_must_be_the_winner_only_where_there_is_a_clear_one(chosen: str, holds: bool) -> None:
    assert choice_check("", chosen, {"mslb": 1.2, "ptlb": 1.0}).holds is holds
    assert choice_check("", chosen, {"mslb": 1.02, "ptlb": 1.0}).holds

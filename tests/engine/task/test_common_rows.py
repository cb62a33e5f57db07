"""Rows of a state that one query has computed, as another one asks for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.task.common_rows import CommonRows
from anabranch.exchange.address import partition_of
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.states.state_id import StateId
from tests.engine.test_orderings import check_session

STATE = StateId("join:a.b#0")
HASHES = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, 5_000)
LOW, HIGH = PartitionSet.of(range(100)), PartitionSet.of(range(100, 256))


def rows(partitions: PartitionSet) -> RowSet:
    mine = HASHES[partitions.flags()[partition_of(HASHES)]]
    return RowSet(pa.record_batch({HASH: mine}))


def computed(*parts: PartitionSet) -> CommonRows:
    common = CommonRows(SharedStates(readers={STATE: ()}))
    common.give({}, [(STATE, part, [rows(part)]) for part in parts])
    return common


@pytest.mark.parametrize("parts", [(LOW | HIGH,), (LOW, HIGH)], ids=["as one", "part by part"])
@pytest.mark.parametrize("wanted", [LOW, HIGH, LOW | HIGH], ids=["low", "high", "all"])
def test_queries_may_divide_their_partitions_differently(
    parts: tuple[PartitionSet, ...], wanted: PartitionSet
) -> None:
    found = computed(*parts).rebuilt(STATE, wanted)
    assert found is not None
    together = np.concatenate([row.int64s(HASH) for row in found])
    assert sorted(together.tolist()) == sorted(rows(wanted).int64s(HASH).tolist())


def test_what_nobody_has_computed_is_not_there_and_half_of_it_is_an_error() -> None:
    assert computed(LOW).rebuilt(STATE, HIGH) is None
    with pytest.raises(AssertionError, match="some partitions only"):
        computed(LOW).rebuilt(STATE, LOW | HIGH)


def test_a_session_in_which_queries_divide_them_differently() -> None:
    check_session(1232, restless_too=True)

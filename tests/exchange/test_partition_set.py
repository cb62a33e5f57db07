"""Sets of partitions behave as Python's sets of numbers do."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import EVERY, NOTHING, PartitionSet, union

some = st.frozensets(st.integers(0, PARTITIONS - 1))


@given(some, some)
def test_partition_sets_are_sets_of_numbers(ours: frozenset[int], theirs: frozenset[int]) -> None:
    a, b = PartitionSet.of(ours), PartitionSet.of(theirs)
    assert set(a | b) == ours | theirs
    assert set(a & b) == ours & theirs
    assert set(a - b) == ours - theirs
    assert (len(a), bool(a), list(a)) == (len(ours), bool(ours), sorted(ours))
    assert all((p in a) == (p in ours) for p in range(PARTITIONS))
    assert union([a, b, NOTHING]) == a | b
    assert EVERY - (EVERY - a) == a


@given(some)
def test_flags_text_and_pickles_lead_back_to_the_set(ours: frozenset[int]) -> None:
    a = PartitionSet.of(ours)
    assert PartitionSet.where(a.flags()) == a
    assert np.flatnonzero(a.flags()).tolist() == sorted(ours)
    assert PartitionSet.from_hex(a.to_hex()) == a
    assert pickle.loads(pickle.dumps(a)) == a

"""Partitions, sites and slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITION_BITS, PARTITIONS, partition_of
from anabranch.exchange.partition_map import PartitionMap

SITES = st.integers(1, PARTITIONS)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_a_partition_is_the_top_bits_of_the_hash_read_as_unsigned(hashes: list[int]) -> None:
    expected = [(h % 2**64) >> (64 - PARTITION_BITS) for h in hashes]
    assert partition_of(np.array(hashes, dtype=np.int64)).tolist() == expected


@given(SITES)
def test_an_even_map_gives_every_site_its_share(sites: int) -> None:
    owners = PartitionMap.even(sites).site_of_partition
    shares = [owners.count(site) for site in range(sites)]
    assert max(shares) - min(shares) <= 1
    assert list(owners) == sorted(owners)


@given(SITES, st.integers(1, 16))
def test_every_site_belongs_to_one_slot(sites: int, slots: int) -> None:
    slots = min(slots, sites)
    found = PartitionMap.even(sites)
    owned = [found.sites_of_slot(slot, slots) for slot in range(slots)]
    assert [site for group in owned for site in group] == list(range(sites))
    assert all(owned)
    for partition, slot in enumerate(found.slot_of_partition(slots)):
        assert found.site_of_partition[partition] in owned[slot]


@given(SITES, SITES)
def test_rescaling_is_even_and_leaves_alone_what_it_can(before: int, after: int) -> None:
    old = PartitionMap.even(before)
    new = old.rescaled(after)
    shares = [new.site_of_partition.count(site) for site in range(after)]
    assert max(shares) - min(shares) <= 1
    if before == after:
        assert new == old


def test_a_move_changes_only_its_partition() -> None:
    moved = PartitionMap.even(2).moved({0: 1})
    assert moved.site_of_partition == (1, *PartitionMap.even(2).site_of_partition[1:])


@pytest.mark.parametrize("owners", [(0,) * (PARTITIONS - 1), (2,) * PARTITIONS, (-1,) * PARTITIONS])
def test_a_map_that_names_no_site_or_misses_a_partition_is_refused(owners: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="partition map"):
        PartitionMap(owners, 2)

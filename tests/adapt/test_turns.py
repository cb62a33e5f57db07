"""Segments go to the least loaded sites, and every site has a lane that is its own."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.routing.load_value import Usage, Weights, load_values
from anabranch.adapt.routing.overhead import StreamRate, best_master, copies_in_turns, copies_per_second
from anabranch.adapt.routing.turns import busiest, lanes, turns
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING, PartitionSet


def test_a_loaded_site_gets_fewer_segments_and_the_busiest_is_less_busy() -> None:
    loads = np.array([6.0, 0.0, 0.0])
    order = turns(loads, 1.0)
    counts = [order.count(site) for site in range(3)]
    assert counts[0] < min(counts[1:])
    assert busiest(loads, order, 1.0, 12) < busiest(loads, (0, 1, 2), 1.0, 12)


def test_every_site_has_one_lane_and_keeps_the_one_it_had() -> None:
    even = PartitionMap.even(4)
    first = lanes(even, (), NOTHING, salt=7)
    assert {even.site_of_partition[p] for p in first.values()} == set(range(4))
    assert lanes(even, tuple(first.values()), NOTHING, salt=99) == first
    # One whose lane has moved away gets another.
    moved = even.moved({first[0]: 1})
    after = lanes(moved, tuple(first.values()), NOTHING, salt=7)
    assert moved.site_of_partition[after[0]] == 0
    assert len(set(after.values())) == 4


def test_lanes_that_are_taken_are_not_given_again() -> None:
    even = PartitionMap.even(2)
    first = lanes(even, (), NOTHING, salt=7)
    second = lanes(even, tuple(first.values()), PartitionSet.of(first.values()), salt=7)
    assert not set(first.values()) & set(second.values())


def test_weights_add_up_and_a_load_value_weighs_every_resource() -> None:
    cpu, memory, wire = (
        Usage((2.0, 4.0), (4.0, 4.0)),
        Usage((1.0, 3.0), (4.0, 4.0)),
        Usage((1.0, 1.0), (2.0, 2.0)),
    )
    assert load_values(cpu, memory, wire, Weights(0.5, 0.25, 0.25)).tolist() == [0.4375, 0.8125]


def test_the_master_is_the_stream_that_leaves_least_to_copy() -> None:
    streams = {"a": StreamRate(10, 60), "b": StreamRate(100, 60), "c": StreamRate(10, 60)}
    assert best_master(streams) == "b"
    assert copies_per_second(streams, "b", 30.0) == 80
    assert copies_in_turns(streams, "b", 30.0, range(3)) == 40

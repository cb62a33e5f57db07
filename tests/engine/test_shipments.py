"""What is copied when partitions move between sites that share nothing."""

from __future__ import annotations

from anabranch.adapt.tracks.tracks import Tracks, Transfer
from anabranch.engine.step.manifests.shipments import Shipment, without_shipped
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.state.block import BlockMeta


def moved(**moves: int) -> PartitionMap:
    """Two partitions, p0 at site 0 and p255 at site 3, and where they are now."""
    return PartitionMap.even(4).moved({int(name[1:]): site for name, site in moves.items()})


def test_rows_of_a_partition_that_moves_are_to_be_copied() -> None:
    tracks = Tracks({}).shipping(moved(), moved(p0=2))
    assert tracks.transfers == (Transfer(0, 2, PartitionSet.of([0])),)
    assert Tracks.from_json(tracks.to_json()) == tracks
    assert tracks.rebuilt().transfers == ()


def test_a_partition_that_moves_on_before_it_was_copied_is_copied_once_from_where_it_was() -> None:
    tracks = Tracks({}).shipping(moved(), moved(p0=2, p255=1)).shipping(moved(p0=2, p255=1), moved(p0=1))
    assert tracks.transfers == (Transfer(0, 1, PartitionSet.of([0])),)


def test_rows_may_still_be_at_a_site_that_is_gone() -> None:
    fewer = PartitionMap.even(4).rescaled(2)
    tracks = Tracks({}).shipping(moved(), fewer)
    assert {t.source for t in tracks.transfers} == {2, 3}
    again = tracks.shipping(fewer, fewer.moved({255: 1 - fewer.site_of_partition[PARTITIONS - 1]}))
    assert all(t.source in (2, 3) for t in again.transfers)


def test_a_block_loses_the_slices_that_were_copied_and_goes_when_it_has_none_left() -> None:
    block = BlockMeta("x", "s", 0, 0, 0, 5, 10, "", 0, 0, 0, ((1, 2), (7, 3)))
    (left,) = without_shipped([block], [Shipment(0, 1, "s", {"x": PartitionSet.of([7])}, (0, 0))])
    assert left.partitions == ((1, 2),)
    both = [
        Shipment(0, 1, "s", {"x": PartitionSet.of([7])}, (0, 0)),
        Shipment(0, 2, "s", {"x": PartitionSet.of([1])}, (0, 0)),
    ]
    assert without_shipped([block], both) == ()

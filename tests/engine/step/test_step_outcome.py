"""What a step leaves: blocks without those it merged, copied away or let enter; event time that passed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from anabranch.engine.reports import SlotReport
from anabranch.engine.step.manifests.shipments import Shipment
from anabranch.engine.step.manifests.step_outcome import blocks_after, elapsed_s, renamed
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.states.state_id import StateId
from anabranch.state import BlockMeta, StreamState

BLOCK = BlockMeta("old", StateId("s"), 0, 0, 0, 5, 10, "", 0, 0, 0, ((1, 2), (7, 3)))


@dataclass
class Task:
    blocks: tuple[BlockMeta, ...]
    merges: tuple[tuple[str, ...], ...] = ()
    shipments: tuple[Shipment, ...] = ()


def left(task: Task, *written: BlockMeta) -> list[str]:
    return [b.name for b in blocks_after(task, [SlotReport(0, blocks=list(written))])]  # type: ignore[arg-type]


def test_merged_blocks_go_and_what_was_written_stays() -> None:
    other = replace(BLOCK, name="other")
    task = Task((BLOCK, other), merges=(("old",),))
    assert left(task, replace(BLOCK, name="merged")) == ["other", "merged"]


def test_rows_that_waited_have_entered_or_wait_in_a_block_of_this_step() -> None:
    waiting = replace(BLOCK, name="waited", state=StateId("stream:s").waiting)
    again = replace(waiting, name="waits again")
    assert left(Task((BLOCK, waiting)), again) == ["old", "waits again"]


def test_slices_that_were_copied_away_are_gone() -> None:
    shipment = Shipment(0, 1, StateId("s"), {"old": PartitionSet.of([7])}, (0, 0))
    (found,) = blocks_after(Task((BLOCK,), shipments=(shipment,)), [])  # type: ignore[arg-type]
    assert found.partitions == ((1, 2),)


def test_blocks_get_the_new_name_of_their_state() -> None:
    other = replace(BLOCK, name="b", state="t")
    assert [b.state for b in renamed((BLOCK, other), {"s": "u"})] == ["u", "t"]


def test_event_time_passes_as_fast_as_the_fastest_known_stream() -> None:
    known = {"a": StreamState("a", max_ts=1_000_000), "b": StreamState("b", max_ts=0), "c": StreamState("c")}
    now = [
        StreamState("a", max_ts=3_000_000),
        StreamState("b", max_ts=500_000),
        StreamState("c", max_ts=10**12),  # it speaks for the first time
    ]
    assert elapsed_s(known, now) == pytest.approx(2.0)

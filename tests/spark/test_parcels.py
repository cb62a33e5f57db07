"""What travels between two hops through Spark is what was sent."""

from __future__ import annotations

from anabranch.engine.task.arrival.parcel import Content
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.spark.slot_stages import parcel_of


def test_a_state_that_spark_has_carried_as_text_is_an_id_again() -> None:
    sent = StateId.of(StateKind.STREAM, "orders", "key")
    parcel = parcel_of({"slot": 1, "state": str(sent), "content": "rows", "payload": b""})
    assert type(parcel.state) is StateId
    assert parcel.state == sent
    assert not parcel.state.is_waiting
    assert parcel.content is Content.ROWS

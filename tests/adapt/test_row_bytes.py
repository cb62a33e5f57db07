"""An intermediate row takes along the fields and keys of each reference; text as long as what is in state."""

from __future__ import annotations

from anabranch.adapt.plans.row_bytes import row_bytes
from anabranch.plan.logical import Column, Stream
from anabranch.queries.reconcile import reconcile
from anabranch.state import BlockMeta
from tests.engine.nasty_runs import bind

COLUMNS = (Column("id", "int"), Column("k", "bigint"), Column("note", "string"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, COLUMNS, "ts", 0) for name in "ab")


def test_numbers_take_eight_bytes_each_and_text_what_it_takes_in_state() -> None:
    text = "SELECT a.id, b.note FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
    catalog = reconcile(STREAMS, bind(STREAMS, q=text), None)
    (routed,) = catalog.layout.queries
    nothing_kept = row_bytes(catalog.layout, routed, [])
    assert nothing_kept == {"a": 16.0, "b": 16.0}
    blocks = [
        BlockMeta(name, source.state, 0, 0, 0, 10, 10 * size, "", 0, 0, 0)
        for source in catalog.layout.inputs
        for name, size in (("x", 900), ("y", 1_100))
    ]
    assert row_bytes(catalog.layout, routed, blocks) == {"a": 16.0, "b": 1_000.0}

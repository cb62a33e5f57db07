"""What a batch costs grows with the number of queries, not with its square."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step import task_plan
from anabranch.engine.task.blocks import open_blocks
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.state.block import BlockMeta
from anabranch.testing.stream_model import scratch
from tests.engine.nasty_runs import bind, rows, stream

A = stream("a")
FEW, MANY = 4, 16


class WatchedBlock(OpenBlock):
    looks = 0

    def __getattribute__(self, name: str) -> Any:
        WatchedBlock.looks += name in ("meta", "partitions")
        return super().__getattribute__(name)


class WatchedMeta(BlockMeta):
    looks = 0

    def __getattribute__(self, name: str) -> Any:
        WatchedMeta.looks += name == "state"
        return super().__getattribute__(name)


def looks_at_blocks(queries: int) -> int:
    """How often a batch looks at an open block, with so many queries that each have a state of their own."""
    texts = {
        f"q{i}": f"SELECT x.id, y.id AS other FROM a [NOW] x, a [NOW] y WHERE x.k = y.k AND x.v >= {-i} "
        f"AND y.v >= {-i}"
        for i in range(queries)
    }
    with scratch() as root:
        run = LocalRun(root, (A,), bind((A,), **texts), settings=Settings(sites=1, slots=1))
        run.batch({"a": rows((1, 0), (2, 0))})
        WatchedBlock.looks = 0
        run.batch({"a": rows((1, 0), (2, 0), first=2)})
        run.close()
        assert all(run.results(name).num_rows == 8 for name in texts)
    return WatchedBlock.looks


def test_a_track_looks_at_the_blocks_of_its_own_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_blocks, "OpenBlock", WatchedBlock)
    assert 0 < looks_at_blocks(MANY) < 1.5 * MANY / FEW * looks_at_blocks(FEW)


def looks_to_plan_merges(states: int) -> int:
    buckets = {f"s{i}": 10 for i in range(states)}
    blocks = [
        WatchedMeta(f"{i} {n}", f"s{i}", n, n, 0, 1, 1, "", 0, 0, 0, ((0, 1),))
        for i in range(states)
        for n in range(4)
    ]
    WatchedMeta.looks = 0
    merges = task_plan._merges(blocks, buckets, Settings(max_blocks=2), ())
    assert len(merges) == states
    return WatchedMeta.looks


def test_a_block_is_looked_at_for_the_merges_of_its_own_state() -> None:
    few, many = (looks_to_plan_merges(states) for states in (FEW, MANY))
    assert 0 < many < 1.5 * MANY / FEW * few

"""Rows of a session that goes on are kept again: what is left of them in old blocks must not come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step.times import finality
from anabranch.language.flow import bind_query
from anabranch.operators.group.final_rows import Emission
from anabranch.plan.logical import Column, Stream
from anabranch.state import compaction

STREAM = Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts", lateness_us=4)
TEXT = "SELECT k, COUNT(*) AS n FROM s GROUP BY k, session_window(ts, '8 microseconds')"


def rows(*given: tuple[int, int]) -> dict[str, pa.Table]:
    keys, times = zip(*given, strict=True)
    return {"s": pa.table({"k": pa.array(keys), "ts": pa.array(times).cast(pa.timestamp("us"))})}


def counted(root: Path) -> Sequence[tuple[int, int]]:
    """Sessions of a run in which blocks are merged once a session has taken its first row along.

    Key 1 has rows at 10 and 18, which are one session, in two blocks that other rows keep from expiring::

        block 0   1 ├────────┤ 18      2 at 18          watermark 14
        block 1     at 18: 1 ├────────┤ 26, 2 at 19
        block 2                          3 at 24        watermark 20: the row at 10 is taken along
    """
    query = bind_query("q", TEXT, {"s": STREAM})
    settings = Settings(sites=1, slots=1, max_blocks=12)
    with mock.patch.object(compaction, "FAN_IN", 2):
        run = LocalRun(root, [STREAM], [query], settings=settings)
        run.batch(rows((1, 10), (2, 18)))
        run.batch(rows((1, 18), (2, 19)))
        run.batch(rows((3, 24)))
        run.loop.change(max_blocks=0)
        merged = run.batch(rows((3, 25)))
        assert any(b.last_batch > b.batch for b in merged.manifest.blocks), "nothing was merged"
        run.end_of_input()
        run.close()
    return sorted((r["k"], r["n"]) for r in run.results("q").to_pylist())


def test_merging_blocks_does_not_bring_back_what_a_session_took_along(tmp_path: Path) -> None:
    assert counted(tmp_path / "right") == [(1, 2), (2, 2), (3, 2)]
    real = finality.Condense

    def keep_all(node: Any, emission: Emission) -> Any:
        return real(node, replace(emission, since=0, until=0, ahead={}))

    with mock.patch.object(finality, "Condense", keep_all):  # the session above is one that shows it
        assert counted(tmp_path / "wrong") == [(1, 3), (2, 2), (3, 2)]

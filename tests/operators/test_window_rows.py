"""What windows keep of rows: one per pane or chain, whatever is merged with what, and no more."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, GroupWindow, Stream
from anabranch.testing.stream_model import scratch

STREAM = Stream("s", (Column("k", "bigint"), Column("x", "int"), Column("ts", "timestamp")), "ts")
SECOND = 1_000_000


@pytest.mark.parametrize("seed", range(20))
def test_windows_of_a_time_are_those_that_hold_it(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(1, 30)
    slide = draw.randint(1, size)
    window = GroupWindow(size, slide, draw.randrange(slide))
    times = np.arange(40, 100)
    for time, last, pane in zip(times, window.last_instant(times), window.pane_of(times), strict=True):
        starts = [s for s in range(-100, 200) if (s - window.offset_us) % slide == 0 and s <= time < s + size]
        assert window.last_start(int(time)) == starts[-1]
        assert last == starts[-1] + size - 1
        alike = [s for s in range(-100, 200) if (s - window.offset_us) % slide == 0]
        inside = [[s <= t < s + size for s in alike] for t in (int(pane), int(time))]
        assert inside[0] == inside[1], "all of a pane lies in the same windows"


def rows(batch: int, size: int, keys: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(batch)
    times = batch * SECOND + np.sort(rng.integers(0, SECOND, size))
    return {
        "s": pa.table(
            {
                "k": rng.integers(0, keys, size),
                "x": pa.array(rng.integers(0, 100, size), pa.int32()),
                "ts": pa.array(times).cast(pa.timestamp("us")),
            }
        )
    }


def kept_rows(text: str, *, batches: int, size: int = 2_000, keys: int = 10) -> list[int]:
    """Rows of state after each batch."""
    query = bind_query("q", text, {"s": STREAM})
    with scratch() as root:
        settings = Settings(sites=1, slots=1, max_blocks=2, rebalance="off")
        run = LocalRun(root, [STREAM], [query], sinks={"q": MemorySink()}, settings=settings)
        done = [run.batch(rows(number, size, keys)) for number in range(batches)]
        run.close()
    return [sum(block.rows for block in summary.manifest.blocks) for summary in done]


def test_a_tumbling_window_keeps_a_row_per_group_and_block() -> None:
    kept = kept_rows("SELECT k, AVG(x) AS a FROM s GROUP BY k, window(ts, '1 hour')", batches=12)
    assert max(kept) <= 10 * 6  # groups times blocks, of 24,000 rows


def test_a_hopping_window_keeps_a_row_per_group_and_pane() -> None:
    text = "SELECT k, MAX(x) AS a FROM s GROUP BY k, window(ts, '6 seconds', '2 seconds')"
    kept = kept_rows(text, batches=30)
    assert max(kept[10:]) <= 10 * (3 + 1) * 6
    assert max(kept[20:]) <= 1.5 * max(kept[10:20])


def test_a_session_that_never_ends_keeps_as_much_as_a_short_one() -> None:
    text = "SELECT k, COUNT(*) AS n FROM s GROUP BY k, session_window(ts, '2 seconds')"
    kept = kept_rows(text, batches=40)
    assert max(kept[20:]) <= 1.5 * max(kept[5:20])


def test_rows_are_kept_where_a_function_needs_them_and_go_with_their_window() -> None:
    text = "SELECT k, median(x) AS m FROM s GROUP BY k, window(ts, '2 seconds')"
    kept = kept_rows(text, batches=12)
    assert 2_000 <= max(kept) <= 4 * 2_000


def test_many_groups_and_short_windows_long_after_1970_have_all_their_results() -> None:
    text = "SELECT k, COUNT(*) AS n FROM s GROUP BY k, window(ts, '2 microseconds', '1 microsecond')"
    keys, base = 10_000, 1_700_000_000 * SECOND
    table = pa.table(
        {
            "k": np.arange(keys),
            "x": pa.array(np.zeros(keys), pa.int32()),
            "ts": pa.array(np.full(keys, base)).cast(pa.timestamp("us")),
        }
    )
    sink = MemorySink()
    with scratch() as root:
        query = bind_query("q", text, {"s": STREAM})
        run = LocalRun(root, [STREAM], [query], sinks={"q": sink}, settings=Settings(sites=1, slots=1))
        run.batch({"s": table})
        run.end_of_input()
        run.close()
    found = sink.table()
    assert found.num_rows == 2 * keys
    assert len(set(found.column("k").to_pylist())) == keys

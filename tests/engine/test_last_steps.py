"""The last steps of a run that has read everything: shown one by one, and ended by `stop`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.spark.run_driver import RunDriver
from tests.engine.directed_runs import STREAMS, TWO_SITES, joined, steady_batches

LONG_S = 30.0


def read_everything(stopped: threading.Event) -> SimpleNamespace:
    """Spark's handle of a query that has ended by itself; notes when it is told to stop."""
    return SimpleNamespace(
        awaitTermination=lambda timeout=None: True,
        exception=lambda: None,
        isActive=False,
        stop=stopped.set,
    )


def test_stop_ends_them_after_the_step_under_way(tmp_path: Path) -> None:
    local = LocalRun(tmp_path, STREAMS, [joined("a", "b")], settings=TWO_SITES)
    (batch,) = steady_batches(1)
    local.batch(batch)
    run = RunDriver(local.loop, local.fence)
    second, asked, stopping = threading.Event(), threading.Event(), threading.Event()

    def endless() -> Iterator[BatchSummary]:
        yield local.loop.step()
        second.set()
        assert stopping.wait(LONG_S)
        while True:
            yield local.loop.step()

    run.begin(lambda: read_everything(asked), finish=endless)  # type: ignore[arg-type]
    assert second.wait(LONG_S)
    assert [p.step for p in run.record.progress] == [1]
    ender = threading.Thread(target=run.stop)
    ender.start()
    assert asked.wait(LONG_S)
    stopping.set()
    ender.join(LONG_S)
    assert not ender.is_alive()
    assert [p.step for p in run.record.progress] == [1, 2]

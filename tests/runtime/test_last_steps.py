"""The last steps of a run that has read everything: shown one by one, and ended by `stop`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from tests.runtime.directed_runs import STREAMS, TWO_SITES, joined, steady_batches

from anabranch.runtime.batch_loop import BatchSummary
from anabranch.runtime.run import Run
from anabranch.testing.local_run import LocalRun

LONG_S = 30.0


def read_everything() -> SimpleNamespace:
    """Spark's handle of a query that has ended by itself."""
    return SimpleNamespace(
        awaitTermination=lambda timeout=None: True, exception=lambda: None, stop=lambda: None
    )


def test_stop_ends_them_after_the_step_under_way(tmp_path: Path) -> None:
    local = LocalRun(tmp_path, STREAMS, [joined("a", "b")], settings=TWO_SITES)
    (batch,) = steady_batches(1)
    local.batch(batch)
    run = Run(local.loop, local.fence)
    run.attach(read_everything())  # type: ignore[arg-type]
    second, stopping = threading.Event(), threading.Event()

    def endless() -> Iterator[BatchSummary]:
        yield local.loop.step()
        second.set()
        assert stopping.wait(LONG_S)
        while True:
            yield local.loop.step()

    run.finish_when_done(endless)
    assert second.wait(LONG_S)
    assert [p["step"] for p in run.recentProgress] == [1]
    ender = threading.Thread(target=run.stop)
    ender.start()
    while not run._stopped:
        pass
    stopping.set()
    ender.join(LONG_S)
    assert not ender.is_alive()
    assert [p["step"] for p in run.recentProgress] == [1, 2]

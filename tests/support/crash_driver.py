"""A driver program to be killed: runs a flow file to the end of its input, or to the step where it dies.

    python -m tests.support.crash_driver FLOW CHECKPOINT [key=value …]

`ANABRANCH_CRASH_AT="step@batch"` kills this process with SIGKILL at a step of the commit protocol (see
`STEPS`); `ANABRANCH_CRASH_GROUP=1` takes the JVM along at once. Files in `CHECKPOINT/faults` make a task
fail once: `kill-<batch>-<slot>` kills its Python worker after its work and before its report, `executor-…`
the JVM above it, `fail-…` raises there, `shuffle-…` deletes all shuffle files, `hold-…` lets it wait at its
beginning for a file `go`; with `hop_` before it, the same but waiting happens in the next hop of a step.
`ANABRANCH_RESTLESS=seed` moves partitions and changes plans at every boundary (see `restless`), and
`ANABRANCH_HOT=n` lets the keys below n, and groups, become hot and cool there, too. Product code knows
nothing of this: functions are replaced here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.step import batch_loop, delivery
from anabranch.engine.step.batch_loop import BatchLoop
from anabranch.engine.step.step_end import StepEnd
from anabranch.engine.task.arrival.parcel import Parcel
from anabranch.engine.task.hop_run import run_hop
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.language.flow import parse_flow
from anabranch.spark import slot_stages
from anabranch.spark.run_driver import RunDriver
from anabranch.spark.session import Session
from anabranch.spark.start import begin_run
from anabranch.spark.start.spark_session import spark_session
from anabranch.state import PosixStorage
from tests.support.restless import RestlessDecider
from tests.support.spark_cluster import wait_until

FAULTS = "faults"
"""Folder of the checkpoint whose files make tasks fail."""

STEPS: dict[str, tuple[Any, str, str]] = {
    "fence held": (begin_run, "acquire", "after"),
    "batch planned": (BatchLoop, "_task", "after"),
    "reports in": (StepEnd, "outcome", "before"),
    "manifest about to be written": (batch_loop, "publish", "before"),
    "manifest written": (batch_loop, "publish", "after"),
    "first result published": (ParquetSink, "_place", "after"),
    "all results published": (delivery, "note_delivered", "before"),
    "delivery noted": (delivery, "note_delivered", "after"),
    "garbage about to be collected": (batch_loop, "collect_garbage", "before"),
    "back to Spark": (RunDriver, "process", "after"),
    "input about to be ended": (BatchLoop, "end_of_input", "before"),
}
"""Name of a step → what is replaced, and on which side of it the process dies."""


def die_at(step: str, batch: int, *, group: bool) -> None:
    """Replace a function so that this process is killed there, in that batch or a later one.

    Batch -1 is any, also a further step of a batch that another process has run.
    """
    owner, name, side = STEPS[step]
    real = getattr(owner, name)

    def dies(*args: Any, **kwargs: Any) -> Any:
        now = _current_batch[0] >= batch or step == "fence held"
        if now and side == "before":
            _kill(group=group)
        result = real(*args, **kwargs)
        if now:
            _kill(group=group)
        return result

    setattr(owner, name, dies)


_current_batch = [-1]


def note_batches() -> None:
    """Print the number of each batch that begins."""
    real = RunDriver.process

    def process(driver: RunDriver, batch: int, *given: Any, **more: Any) -> None:
        _current_batch[0] = batch
        print(f"batch {batch}", flush=True)
        real(driver, batch, *given, **more)

    RunDriver.process = process  # type: ignore[method-assign, assignment]


def _kill(*, group: bool) -> None:
    if group:
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def fragile_first_hop(
    task: SlotTask, slot: int, batches: Iterable[pa.RecordBatch], *, attempt: str = "0"
) -> Iterator[Parcel]:
    """`run_first_hop` that fails once, after its work, where a file in the checkpoint says so."""
    faults, here = _checkpoint_of(task) / FAULTS, f"{task.batch}-{slot}"
    if _take(faults / f"hold-{here}"):
        _hold(faults, here)
    parcels = list(run_first_hop(task, slot, batches, attempt=attempt))
    _fail_once(faults, here)
    yield from parcels


def fragile_later_hop(
    task: SlotTask, hop: int, slot: int, parcels: Iterable[Parcel], *, attempt: str = "0"
) -> Iterator[Parcel]:
    """`run_hop` that fails likewise, where the name of the file begins with `hop_`."""
    made = list(run_hop(task, hop, slot, parcels, attempt=attempt))
    _fail_once(_checkpoint_of(task) / FAULTS, f"{task.batch}-{slot}", kind="hop_")
    yield from made


def _fail_once(faults: Path, here: str, *, kind: str = "") -> None:
    if _take(faults / f"{kind}kill-{here}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if _take(faults / f"{kind}executor-{here}"):
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    if _take(faults / f"{kind}fail-{here}"):
        raise RuntimeError("failing once, on purpose")
    if _take(faults / f"{kind}shuffle-{here}"):
        lost = list((faults / "local").resolve().rglob("shuffle_*.data"))
        for file in lost:
            file.unlink()
        (faults / f"lost_{len(lost)}_files").touch()


def _checkpoint_of(task: SlotTask) -> Path:
    assert isinstance(task.storage, PosixStorage)
    return task.storage.root


def _hold(faults: Path, here: str) -> None:
    (faults / "new").write_text(str(Path.cwd()))
    (faults / "new").rename(faults / f"held_{here}")
    wait_until((faults / "go").exists, "the sign to go on", timeout=120)


def _parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


def _take(mark: Path) -> bool:
    """Whether the mark was there; it is no more."""
    try:
        mark.unlink()
    except FileNotFoundError:
        return False
    return True


def main(arguments: list[str]) -> None:
    flow, checkpoint, *settings = arguments
    conf = dict(setting.split("=", 1) for setting in settings)
    master = conf.pop("master", None)
    slot_stages.run_first_hop = fragile_first_hop  # type: ignore[attr-defined]
    slot_stages.run_hop = fragile_later_hop  # type: ignore[attr-defined]
    note_batches()
    if crash := os.environ.get("ANABRANCH_CRASH_AT"):
        step, _, batch = crash.partition("@")
        die_at(step, int(batch or 0), group="ANABRANCH_CRASH_GROUP" in os.environ)
    # On a cluster the master comes with the environment (see spark_cluster).
    spark = SparkSession.builder.getOrCreate() if master is None else spark_session(master, conf)
    started = Session(spark, checkpoint)
    started.load(parse_flow(Path(flow).read_text(), path=flow))
    seed = os.environ.get("ANABRANCH_RESTLESS")
    hot = int(os.environ.get("ANABRANCH_HOT", "0"))
    keys = [row[0] for row in spark.sql(f"SELECT xxhash64(id) FROM range({hot})").collect()]
    started.decider = None if seed is None else RestlessDecider(int(seed), rescales=False, keys=keys)
    run = started.start(availableNow=True)
    run.awaitTermination()
    print(f"done after {len(run.recentProgress)} batches", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

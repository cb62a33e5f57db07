"""`kill -9` of real drivers and Python workers: the sink holds the oracle's rows, each once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.state import PosixStorage, newest
from tests.support.crash_driver import STEPS
from tests.support.killed_run import killed_run, random_kills

pytestmark = pytest.mark.spark

KILLED = -9
EVERY_STEP = [s for s in STEPS if "about to be" not in s]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["fence held", "reports in", "delivery noted"], id="some steps"),
        pytest.param(EVERY_STEP, marks=pytest.mark.slow),
    ],
)
def test_drivers_killed_at_steps_of_the_commit_protocol_and_workers_in_mid_batch(
    tmp_path: Path, steps: list[str]
) -> None:
    run = killed_run(tmp_path, batches=13)  # two may come in one when Spark's log has gone back
    for batch, step in enumerate(steps):
        crash_at = f"{step}@{batch}"
        driver = run.start(crash_at=crash_at, group=batch % 2 == 0, plan_ahead=batch % 4 < 2)
        assert driver.wait() == KILLED, f"{step}: {driver.output()[-2000:]}"
        assert (step == "fence held") == ("batch" not in driver.output()), driver.output()[-2000:]
        if step == "reports in" and batch % 4 < 2:
            assert run.spark_is_ahead(), "Spark has taken the batch for done that died"
    driver = run.start()
    assert driver.kill_in_batch(8, after_ms=300, group=True)
    for batch, slot in ((10, 0), (10, 1), (11, 1)):
        run.plant("kill", batch, slot)
    run.plant("fail", 11, 0)
    run.plant("hop_kill", 9, 1)
    run.plant("hop_fail", 10, 0)
    ends = "input about to be ended@-1" if len(steps) < len(EVERY_STEP) else "manifest written@-1"
    driver = run.start(crash_at=ends)
    assert driver.wait() == KILLED, f"{ends}: {driver.output()[-3000:]}"
    driver = run.start(plan_ahead=True)
    assert driver.wait() == 0, driver.output()[-3000:]
    assert not run.planted()  # 1 driver per step, 2 more, 4 workers
    assert run.assert_exact() > 1000


def test_shuffle_files_lost_in_mid_job_are_made_again_and_no_row_is_lost_or_doubled(tmp_path: Path) -> None:
    run = killed_run(tmp_path, batches=3)
    for batch in (0, 2):
        run.plant("shuffle", batch, 0)
    run.plant("hop_shuffle", 1, 0)  # of both hops
    # One core: slot 1 fetches its rows after slot 0 has deleted them.
    driver = run.start(master="local[1,4]")
    assert driver.wait() == 0, driver.output()[-3000:]
    run.assert_files_lost()
    assert run.assert_exact() > 200


@pytest.mark.slow
@pytest.mark.parametrize("router", ["aligned", "coordinated", "hot keys"])
def test_shuffle_files_lost_in_mid_job_under(
    router: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if router == "hot keys":
        monkeypatch.setenv("ANABRANCH_RESTLESS", "5")
        monkeypatch.setenv("ANABRANCH_HOT", "30")
    run = killed_run(tmp_path, batches=5, routing="auto" if router == "hot keys" else router)
    for batch in (1, 3, 4):
        run.plant("shuffle", batch, 0)
    run.plant("hop_shuffle", 2, 0)
    driver = run.start(master="local[1,4]")
    assert driver.wait() == 0, driver.output()[-3000:]
    run.assert_files_lost()
    assert run.assert_exact() > 300
    manifest = newest(PosixStorage(run.checkpoint))
    assert manifest is not None
    if router == "hot keys":
        assert manifest.controller["hot"]["keys"]
    else:
        assert ("coordinated" in manifest.controller["routing"]["near"]) == (router == "coordinated")


@pytest.mark.slow
def test_any_number_of_random_kills(tmp_path: Path) -> None:
    wanted = int(os.environ.get("ANABRANCH_KILLS", "50"))
    seed = int(os.environ.get("ANABRANCH_KILL_FIRST_SEED", "0"))
    died = 0
    while died < wanted:
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        run = killed_run(folder, batches=10, seed=seed)
        died += random_kills(run, list(STEPS), seed=seed, kills=6)
        run.assert_exact()
        print(f"seed {seed}: {died} kills so far, every result exact", flush=True)
        seed += 1

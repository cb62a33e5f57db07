"""One master and two workers on loopback: the same results, also when machines die in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.exchange.partition_map import PartitionMap
from anabranch.state import PosixStorage, newest
from tests.support import crash_driver
from tests.support.crash_driver import FAULTS
from tests.support.killed_run import killed_run
from tests.support.spark_cluster import SparkCluster, finish_driver, spark_cluster, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

DRIVER = Path(crash_driver.__file__)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_machines_die_while_partitions_move_and_plans_change_and_the_result_is_right(
    cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_RESTLESS", "4")
    run = killed_run(tmp_path, batches=5)
    run.plant("executor", 1, 0)
    run.plant("kill", 2, 1)
    run.plant("hold", 3, 0)
    run.plant("hop_executor", 4, 1)
    arguments = [str(run.flow_file), str(run.checkpoint)]
    driver = cluster.start_driver(DRIVER, *arguments)
    faults = run.checkpoint / FAULTS
    held = faults / "held_3-0"
    wait_until(lambda: held.exists() or driver.poll() is not None, "a task in batch 3", timeout=240)
    if held.exists():
        place = Path(held.read_text())
        worker = next(w for w in (0, 1) if place.is_relative_to(cluster.work_dir(w)))
        cluster.kill_worker(worker)
        wait_until(lambda: cluster.alive_workers() == 1, "the master missing a worker")
        (faults / "go").touch()
    output = finish_driver(driver, timeout=240)
    assert "batch 4\ndone" in output
    assert not run.planted()
    assert run.assert_exact() > 300
    newest_manifest = newest(PosixStorage(run.checkpoint))
    assert newest_manifest is not None
    moved = PartitionMap.even(newest_manifest.sites).site_of_partition != newest_manifest.partition_map
    assert moved, "no partition has moved: nothing was shown"
    cluster.start_worker()
    wait_until(lambda: cluster.alive_workers() == 2, "a new worker")


@pytest.mark.slow
@pytest.mark.parametrize("router", ["stations", "aligned", "coordinated", "hot keys"])
def test_shuffle_files_of_both_workers_are_lost_in_mid_job_under(
    router: str, cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if router == "hot keys":
        monkeypatch.setenv("ANABRANCH_RESTLESS", "5")
        monkeypatch.setenv("ANABRANCH_HOT", "30")
    routing = {"stations": "hash", "hot keys": "auto"}.get(router, router)
    run = killed_run(tmp_path, batches=3, routing=routing)
    (run.checkpoint / FAULTS).mkdir(parents=True)
    (run.checkpoint / FAULTS / "local").symlink_to(cluster.root / "local")
    for batch in (1, 2):
        run.plant("shuffle", batch, 0)
    if router == "stations":
        run.plant("hop_shuffle", 2, 1)  # rows of the chain alone travel: it happens if they do
    output = cluster.run_driver(DRIVER, str(run.flow_file), str(run.checkpoint), timeout=300)
    assert "batch 2\ndone" in output
    run.assert_files_lost()
    assert run.assert_exact() > 200

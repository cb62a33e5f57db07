from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spark_cluster import SparkCluster, finish_driver, spark_cluster, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow]  # test_cluster.py uses all of it, too


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


SUM_ON_EXECUTORS = """
import json, os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()

def totals(batches):
    import pyarrow as pa
    from anabranch import workloads  # the package is there, too
    total = sum(sum(b.column(0).to_pylist()) for b in batches)
    yield pa.RecordBatch.from_pydict({"total": [total], "cwd": [os.getcwd()], "python": [sys.executable]})

rows = spark.range(0, 1000, 1, 4).mapInArrow(totals, "total long, cwd string, python string").collect()
print(json.dumps([r.asDict() for r in rows]))
spark.stop()
"""


def test_executors_run_arrow_functions_with_the_interpreter_of_this_environment(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    script = tmp_path / "sum.py"
    script.write_text(SUM_ON_EXECUTORS)
    rows = json.loads(cluster.run_driver(script))
    assert sum(row["total"] for row in rows) == 499_500
    assert {row["python"] for row in rows} == {sys.executable}
    assert all(Path(row["cwd"]).is_relative_to(cluster.root) for row in rows)


# Two tasks say where they run and wait for a sign; meanwhile one of the two machines dies.
TASKS_THAT_WAIT = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark import TaskContext

signs = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()

def wait_and_sum(batches):
    import pyarrow as pa
    total = sum(sum(b.column(0).to_pylist()) for b in batches)
    task = TaskContext.get()
    mark = signs / f"{task.partitionId()}-{task.attemptNumber()}"
    mark.with_suffix(".new").write_text(os.getcwd())
    mark.with_suffix(".new").rename(mark)
    while not (signs / "go").exists():
        time.sleep(0.02)
    yield pa.RecordBatch.from_pydict({"total": [total], "attempt": [task.attemptNumber()]})

rows = spark.range(0, 1000, 1, 2).mapInArrow(wait_and_sum, "total long, attempt long").collect()
print(sum(r.total for r in rows), max(r.attempt for r in rows))
spark.stop()
"""


def test_a_job_finishes_although_a_worker_is_killed_in_the_middle(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    script = tmp_path / "wait.py"
    script.write_text(TASKS_THAT_WAIT)
    driver = cluster.start_driver(script, str(signs))
    wait_until(lambda: len(list(signs.glob("?-0"))) == 2, "both tasks running")
    places = {Path(mark.read_text()) for mark in signs.glob("?-0")}
    assert all(any(p.is_relative_to(cluster.work_dir(w)) for p in places) for w in (0, 1))

    cluster.kill_worker(0)
    wait_until(lambda: cluster.alive_workers() == 1, "the master missing a worker")
    (signs / "go").touch()

    total, last_attempt = finish_driver(driver).split()
    assert int(total) == 499_500
    assert int(last_attempt) == 1

    cluster.start_worker()
    wait_until(lambda: cluster.alive_workers() == 2, "a new worker in place of the dead one")

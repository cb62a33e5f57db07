"""What every test may use: Hypothesis profiles, a small local Spark, a place for a checkpoint."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.quick_disk import use_memory_for_temporary_files
from tests.support.short_lived_jvm import DRIVERS, QUICK_COMPILER
from tests.support.storages import CHOSEN, forget_stores, local_runs_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOW_DATA = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_SLOW_DATA)
settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_SLOW_DATA,
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=_SLOW_DATA
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
os.environ.setdefault(DRIVERS, QUICK_COMPILER)  # of this process, and of those that tests start
use_memory_for_temporary_files()


@pytest.fixture(scope="session", autouse=True)
def _chosen_storage() -> Iterator[None]:
    """Local sessions run over the storage that `ANABRANCH_STORAGE` names."""
    with local_runs_over(CHOSEN):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_stores_left() -> Iterator[None]:
    yield
    forget_stores()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for the whole run; tests that use it carry the mark `spark`."""
    # Not at the top: most tests need no JVM, and workers of pytest-xdist should not pay for the import.
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    scratch = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("anabranch-tests")
    for key, value in _spark_conf(scratch).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _spark_conf(scratch: Path) -> dict[str, str]:
    return {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A fresh directory for the checkpoint of a session or of a streaming query."""
    return tmp_path / "checkpoint"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes come first, so that no worker is left alone with them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/reliability/", "tests/spark/")))

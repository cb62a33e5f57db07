"""A cluster whose workers cannot reach the driver: a word after a bounded wait, not silence for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from tests.support.short_lived_jvm import DAEMONS, DRIVERS, QUICK_COMPILER
from tests.support.spark_cluster import wait_until, with_tests
from tests.support.two_networks import Network, no_networks, two_networks

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.cluster]

PORT = 7077  # nobody else is in these networks
DRIVER = """
import sys
from anabranch.errors import ConfigError
from anabranch.spark.start import spark_session as starting

starting.await_executor.__kwdefaults__["seconds"] = float(sys.argv[3])
conf = {"spark.driver.host": sys.argv[2], "spark.driver.bindAddress": sys.argv[2],
        "spark.executor.memory": "512m", "spark.cores.max": "1", "spark.driver.memory": "512m"}
try:
    spark = starting.spark_session(sys.argv[1], conf)
except ConfigError as error:
    print("REFUSED", error)
else:
    print("COUNTED", spark.range(5).count())
"""


@pytest.fixture(scope="module")
def networks() -> Iterator[tuple[Network, Network]]:
    if (reason := no_networks()) is not None:
        pytest.skip(reason)
    with two_networks() as both:
        yield both


@pytest.fixture(scope="module")
def master(
    networks: tuple[Network, Network], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A master in the near network and a worker in the far one; its address, and where logs are."""
    root = tmp_path_factory.mktemp("far")
    near, far = networks
    url = f"spark://{near.address}:{PORT}"
    running = []
    try:
        options = ("--host", near.address, "--port", str(PORT), "--webui-port", "0")
        running.append(_start(near, "master.Master", *options, root=root))
        wait_until(lambda: "New state: ALIVE" in _log(root, "master.Master"), "a master")
        options = ("--host", far.address, "--cores", "1", "--memory", "1g", "--webui-port", "0")
        running.append(_start(far, "worker.Worker", *options, url, root=root))
        wait_until(lambda: "Registering worker" in _log(root, "master.Master"), "a worker")
        yield url, root
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_worker_that_cannot_reach_the_driver_is_told_of_after_a_bounded_wait(
    networks: tuple[Network, Network], master: tuple[str, Path]
) -> None:
    near, _ = networks
    url, root = master
    # The worker's own loopback, where no driver is.
    told = _drive(near, url, "127.0.0.1", wait_s=20, root=root)
    assert f"REFUSED no executor could connect: {url} has run nothing for 20 s" in told
    assert "reach this driver at 127.0.0.1" in told


def test_the_same_worker_runs_tasks_of_a_driver_that_it_can_reach(
    networks: tuple[Network, Network], master: tuple[str, Path]
) -> None:
    near, _ = networks
    url, root = master
    assert "COUNTED 5" in _drive(near, url, near.address, wait_s=240, root=root)


def _drive(near: Network, url: str, host: str, *, wait_s: float, root: Path) -> str:
    script = root / "driver.py"
    script.write_text(DRIVER)
    command = near.command(sys.executable, str(script), url, host, str(wait_s))
    process = subprocess.Popen(
        command,
        env=_environment(near, root),
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, log = process.communicate(timeout=600)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return output + log[-2000:]


def _start(network: Network, name: str, *options: str, root: Path) -> subprocess.Popen[bytes]:
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with (root / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            network.command(spark_class, f"org.apache.spark.deploy.{name}", *options),
            env=_environment(network, root),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _log(root: Path, name: str) -> str:
    return (root / f"{name}.log").read_text(errors="replace")


def _environment(network: Network, root: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return inherited | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": network.address,
        "SPARK_LOCAL_DIRS": str(root / "local"),
        "SPARK_WORKER_DIR": str(root / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        DAEMONS: QUICK_COMPILER,
        DRIVERS: QUICK_COMPILER,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": with_tests(os.environ.get("PYTHONPATH")),
    }

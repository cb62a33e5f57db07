"""A real standalone Spark cluster on loopback, started from the classes in the PySpark package.

Master and workers are processes of their own, each in a process group of its own, so that killing
a worker takes its executors along, as when a machine dies. Drivers run as processes too: this
process may already hold a local Spark, and one process has one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyspark

from tests.support.short_lived_jvm import DAEMONS, DRIVERS, EXECUTORS, QUICK_COMPILER

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"
_START_SECONDS = 180.0  # a loaded machine takes half a minute to start three JVMs
_POLL_SECONDS = 0.05


@contextmanager
def spark_cluster(
    root: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g", executor_memory: str = "512m"
) -> Iterator[SparkCluster]:
    """Start one master and `workers` workers, yield when all are registered, end them on exit.

    Everything they write goes below `root`.
    """
    cluster = SparkCluster(root, cores=cores, memory=memory, executor_memory=executor_memory)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.start_worker()
        wait_until(lambda: cluster.alive_workers() == workers, f"{workers} workers registered")
        yield cluster
    finally:
        cluster.stop()


@dataclass(slots=True)
class SparkCluster:
    """Handle of a running cluster; made by `spark_cluster`."""

    root: Path
    cores: int
    memory: str
    executor_memory: str
    url: str = ""
    """`spark://127.0.0.1:port`"""
    _ui: str = ""
    _master: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_master(self) -> None:
        """Start the master and wait for its addresses."""
        arguments = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
        self._master = self._spawn("org.apache.spark.deploy.master.Master", arguments, log="master.log")
        self.url = self._logged(r"Starting Spark master at (spark://\S+)")
        self._ui = self._logged(r"Bound MasterWebUI to .* started at (http://\S+)")

    def start_worker(self) -> int:
        """Start one more worker; return its number."""
        number = len(self._workers)
        arguments = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", str(self.cores), "--memory", self.memory]
        arguments += ["--work-dir", str(self.work_dir(number)), self.url]
        worker = self._spawn("org.apache.spark.deploy.worker.Worker", arguments, log=f"worker-{number}.log")
        self._workers.append(worker)
        return number

    def work_dir(self, worker: int) -> Path:
        """Directory below which the executors of that worker run."""
        return self.root / f"worker-{worker}"

    def kill_worker(self, worker: int) -> None:
        """End a worker and its executors at once, as a power cut would."""
        _kill_group(self._workers[worker])

    def alive_workers(self) -> int:
        """How many workers the master counts on."""
        with urllib.request.urlopen(f"{self._ui}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])

    def start_driver(
        self, script: Path, *arguments: str, conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Run a Python script whose `SparkSession.builder.getOrCreate()` is a session on this cluster."""
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=self._environment() | {"PYSPARK_SUBMIT_ARGS": self._submit_args(conf or {})},
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run_driver(
        self, script: Path, *arguments: str, conf: Mapping[str, str] | None = None, timeout: float = 300
    ) -> str:
        """Run a script on the cluster to its end; return what it printed."""
        return finish_driver(self.start_driver(script, *arguments, conf=conf), timeout=timeout)

    def stop(self) -> None:
        """End whatever of this cluster still runs."""
        for process in [*self._workers, *([self._master] if self._master else [])]:
            _kill_group(process)

    def _spawn(self, main_class: str, arguments: list[str], *, log: str) -> subprocess.Popen[bytes]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / log).open("wb") as output:
            return subprocess.Popen(
                [str(_spark_home() / "bin" / "spark-class"), main_class, *arguments],
                env=self._environment(),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """The caller's environment without its Spark settings, and with ours."""
        conf_dir = self.root / "conf"
        conf_dir.mkdir(parents=True, exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return inherited | {
            "SPARK_HOME": str(_spark_home()),
            "SPARK_CONF_DIR": str(conf_dir),
            "SPARK_LOCAL_IP": _LOOPBACK,  # binds the pages of master and workers, too
            "SPARK_LOCAL_DIRS": str(self.root / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            DAEMONS: QUICK_COMPILER,
            DRIVERS: QUICK_COMPILER,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": with_tests(os.environ.get("PYTHONPATH")),
        }

    def _submit_args(self, conf: Mapping[str, str]) -> str:
        settings = {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.memory": "1g",
            "spark.executor.memory": self.executor_memory,
            EXECUTORS: QUICK_COMPILER,
            "spark.executor.cores": str(self.cores),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.root / "warehouse"),
        } | dict(conf)
        options = [part for k, v in settings.items() for part in ("--conf", f"{k}={v}")]
        return shlex.join(["--master", self.url, *options, "pyspark-shell"])

    def _logged(self, pattern: str) -> str:
        """The first group of `pattern` in the master's log, once it is there."""
        log = self.root / "master.log"

        def found() -> str | None:
            match = re.search(pattern, log.read_text(errors="replace"))
            return match[1] if match else None

        return wait_until(found, f"{pattern!r} in {log}")


def with_tests(python_path: str | None) -> str:
    """A search path on which workers find `tests`, whatever folder they run in."""
    root = str(Path(__file__).parents[2])
    return os.pathsep.join([root, *([python_path] if python_path else [])])


def wait_until(condition: Callable[[], T | None], what: str, *, timeout: float = _START_SECONDS) -> T:
    """Ask until the answer is true, and return it; TimeoutError says what was waited for."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:.0f} s: {what}")
        time.sleep(_POLL_SECONDS)
    return answer


def finish_driver(driver: subprocess.Popen[str], *, timeout: float = 300) -> str:
    """Wait for a driver; return what it printed, or raise with the end of its log."""
    try:
        output, log = driver.communicate(timeout=timeout)
    finally:
        _kill_group(driver)
    if driver.returncode != 0:
        raise RuntimeError(f"the driver ended with {driver.returncode}:\n{log[-4000:]}")
    return output


def _spark_home() -> Path:
    return Path(pyspark.__file__).parent


def _kill_group(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill the process group that `process` leads. Python workers follow when their executor is gone."""
    with suppress(ProcessLookupError):  # everyone in it may have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

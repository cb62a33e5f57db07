"""A Kafka broker of its own for a test: one process in KRaft mode, on loopback, with a small heap."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.spark_cluster import wait_until

ROOT = Path(__file__).parents[2]
_LOOPBACK = "127.0.0.1"
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_FETCH_SECONDS = 600.0


def kafka_jars() -> Path | str:
    """Where the jars of broker and connector are, fetched when they are missing; or why there are none."""
    folder = Path(os.environ.get("ANABRANCH_KAFKA_JARS", ROOT / ".kafka-jars"))
    if all((folder / part).is_dir() for part in ("broker", "connector", "avro")):
        return folder
    if shutil.which("mvn") is None:
        return "needs Maven to fetch Kafka's jars, or ANABRANCH_KAFKA_JARS with them"
    script = [str(ROOT / "scripts" / "kafka-jars.sh"), str(folder), "all"]
    fetched = subprocess.run(script, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    return folder if fetched.returncode == 0 else f"Maven has no Kafka for us: {fetched.stderr[-500:]}"


@contextmanager
def kafka_broker(root: Path, jars: Path, *, partitions: int = 4) -> Iterator[KafkaBroker]:
    """A running broker with its data below `root`; ended on exit."""
    broker = KafkaBroker(root, jars / "broker", *_free_ports(2))
    broker.format(partitions)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@dataclass(slots=True)
class KafkaBroker:
    """Handle of a broker; made by `kafka_broker`. It can be killed and started again on its data."""

    root: Path
    jars: Path
    port: int
    controller_port: int
    _process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"{_LOOPBACK}:{self.port}"

    def format(self, partitions: int) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self._conf.write_text(self._properties(partitions))
        subprocess.run(
            [
                *self._java("256m"),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                _CLUSTER_ID,
                "-c",
                str(self._conf),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.root / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("512m"), "kafka.Kafka", str(self._conf)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._listens, f"a broker on port {self.port}")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def _conf(self) -> Path:
        return self.root / "server.properties"

    def _java(self, memory: str) -> list[str]:
        return ["java", f"-Xmx{memory}", "-cp", f"{self.jars}/*"]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.root / "broker.log").read_text()[-3000:]
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((_LOOPBACK, self.port)) == 0

    def _properties(self, partitions: int) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{_LOOPBACK}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{_LOOPBACK}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.root / "data"),
            "num.partitions": str(partitions),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    with_them = [socket.socket() for _ in range(count)]
    try:
        for probe in with_them:
            probe.bind((_LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in with_them]
    finally:
        for probe in with_them:
            probe.close()

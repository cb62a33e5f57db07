"""A watch over Kafka's brokers: says when a run waits for them, and knows how far its topics go.

Spark asks in its own thread and says nothing while nobody answers. The watch asks beside it, from a thread of
its own, so that no batch waits for it: what progress tells of the lag is a second or two old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from anabranch.adapt.events import Event, EventKind
from anabranch.engine.listener import Listener
from anabranch.engine.sinks.sink import Sink
from anabranch.spark.kafka.broker_client import BrokerClient
from anabranch.spark.kafka.kafka_sink import SERVERS, KafkaSink
from anabranch.spark.kafka.topics import KafkaSource, Offsets, kafka_sources, lag_of, positions

PAUSE_SECONDS = 2.0
AGAIN_SECONDS = 60.0
"""After which it is said again that a run still waits."""

Lag = Mapping[str, Mapping[str, int]]
"""Messages that are not read yet, by topic and partition."""


@dataclass(slots=True)
class Brokers:
    """Brokers that are asked together, and for whom."""

    servers: str
    client: BrokerClient
    users: list[str] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    silent_since: float | None = None
    told: float = 0.0


class BrokerWatch:
    """Watches the brokers of a run's streams and sinks."""

    def __init__(
        self,
        checkpoint: Path,
        sources: Sequence[KafkaSource],
        brokers: Sequence[Brokers],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint = checkpoint
        self._sources = sources
        self._brokers = brokers
        self._clock = clock
        self._latest: dict[str, Mapping[int, int]] = {}
        self._stopped = threading.Event()
        self.tell: Callable[[EventKind, str], None] = lambda kind, message: None
        """Hears what happens."""

    def start(self, listeners: Sequence[Listener], *, batch: int) -> None:
        """Watch until `stop`. Until a run hears what happens, its listeners do: a start may wait, too.

        Parameters
        ----------
        batch
            The last that was committed.
        """

        def tell(kind: EventKind, message: str) -> None:
            for listener in listeners:
                listener.on_event(Event(batch, kind, message))

        self.tell = tell
        if self._brokers:
            threading.Thread(target=self._watch, name="anabranch-kafka", daemon=True).start()

    def stop(self) -> None:
        """End the watch; a question that is under way is not waited for."""
        self._stopped.set()

    def lag(self, batch: int) -> dict[str, Lag]:
        """By stream, how far a batch is behind its topics, as far as brokers have answered."""
        if not self._sources:
            return {}
        read, latest = positions(self._checkpoint, batch), self._latest
        self._follow(read)
        found = {source.stream: lag_of(source, read, latest) for source in self._sources}
        return {stream: lag for stream, lag in found.items() if lag}

    def look(self) -> list[tuple[EventKind, str]]:
        """Ask all brokers once; what is worth telling."""
        return [told for brokers in self._brokers for told in self._ask(brokers)]

    def _follow(self, read: Offsets) -> None:
        """Ask for topics that a pattern has found, too."""
        for source in self._sources:
            brokers = next(b for b in self._brokers if b.servers == source.servers)
            brokers.topics = brokers.topics.union(topic for topic in read if source.reads(topic))

    def _watch(self) -> None:
        try:
            while not self._stopped.is_set():
                for kind, message in self.look():
                    self.tell(kind, message)
                self._stopped.wait(PAUSE_SECONDS)
        except Py4JError:
            return  # Spark's JVM has ended
        finally:
            for brokers in self._brokers:
                brokers.client.close()

    def _ask(self, brokers: Brokers) -> Iterable[tuple[EventKind, str]]:
        asked = self._clock()
        latest = brokers.client.latest(sorted(brokers.topics))
        users = f"{brokers.servers} ({', '.join(brokers.users)})"
        if latest is not None:
            self._latest = {**self._latest, **latest}
            if brokers.silent_since is not None:
                seconds = self._clock() - brokers.silent_since
                brokers.silent_since = None
                yield EventKind.KAFKA_ANSWERS, f"Kafka at {users} answers again, after {seconds:.0f} s"
        elif brokers.silent_since is None:
            brokers.silent_since = brokers.told = asked
            yield EventKind.KAFKA_SILENT, f"waiting for Kafka at {users}: it does not answer"
        elif self._clock() - brokers.told >= AGAIN_SECONDS:
            brokers.told = self._clock()
            seconds = brokers.told - brokers.silent_since
            yield EventKind.KAFKA_SILENT, f"still waiting for Kafka at {users}, for {seconds:.0f} s now"


def watch_over(
    spark: SparkSession, checkpoint: Path, frames: Mapping[str, DataFrame], sinks: Mapping[str, Sink]
) -> BrokerWatch:
    """The watch of a run; one that has no Kafka watches nothing."""
    sources = list(kafka_sources(frames))
    brokers: dict[str, Brokers] = {}
    for user, options, topics in (
        *((f"stream {s.stream}", s.options, s.topics) for s in sources),
        *(
            (f"query {q}", _lower(s.options), (s.topic,))
            for q, s in sinks.items()
            if isinstance(s, KafkaSink)
        ),
    ):
        servers = options[SERVERS]
        mine = brokers.setdefault(servers, Brokers(servers, BrokerClient(spark, options)))
        mine.users.append(user)
        mine.topics.update(topics)
    return BrokerWatch(checkpoint, sources, tuple(brokers.values()))


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}

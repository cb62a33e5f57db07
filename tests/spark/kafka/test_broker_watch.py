"""The watch over brokers: a run that waits says so, and says when it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from anabranch.adapt.events import EventKind
from anabranch.spark.kafka.broker_client import BrokerClient
from anabranch.spark.kafka.broker_watch import AGAIN_SECONDS, Brokers, BrokerWatch
from anabranch.spark.kafka.topics import KafkaSource, Offsets

SERVERS = "127.0.0.1:9092"


class Answers:
    """A client whose brokers answer as the test says."""

    def __init__(self) -> None:
        self.offsets: Offsets | None = {}
        self.asked: list[str] = []

    def latest(self, topics: Sequence[str]) -> Offsets | None:
        self.asked = list(topics)
        return self.offsets


class Watched:
    """A watch over one stream of a checkpoint, with a clock that stands."""

    def __init__(self, checkpoint: Path, **options: str) -> None:
        self.now, self.client = 0.0, Answers()
        source = KafkaSource("orders", {"kafka.bootstrap.servers": SERVERS} | options)
        brokers = Brokers(SERVERS, cast("BrokerClient", self.client), ["stream orders"], set(source.topics))
        self.watch = BrokerWatch(checkpoint, [source], [brokers], clock=lambda: self.now)


def test_silence_is_told_once_then_every_minute_and_so_is_its_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path, subscribe="orders")
    assert watched.watch.look() == []
    watched.client.offsets = None
    waiting = f"waiting for Kafka at {SERVERS} (stream orders): it does not answer"
    assert watched.watch.look() == [(EventKind.KAFKA_SILENT, waiting)]
    watched.now = AGAIN_SECONDS - 1
    assert watched.watch.look() == []
    watched.now = AGAIN_SECONDS
    ((kind, message),) = watched.watch.look()
    assert (kind, "for 60 s now" in message) == (EventKind.KAFKA_SILENT, True)
    watched.now, watched.client.offsets = 75.0, {"orders": {0: 3}}
    ((kind, message),) = watched.watch.look()
    assert (kind, "answers again, after 75 s" in message) == (EventKind.KAFKA_ANSWERS, True)
    assert watched.watch.look() == []


def test_lag_is_known_once_brokers_have_answered(tmp_path: Path) -> None:
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "offsets" / "4").write_text('v1\n{}\n{"orders":{"0":40,"1":7}}')
    watched = Watched(tmp_path, subscribe="orders")
    assert watched.watch.lag(4) == {}
    watched.client.offsets = {"orders": {0: 50, 1: 7}}
    watched.watch.look()
    assert watched.watch.lag(4) == {"orders": {"orders": {"0": 10, "1": 0}}}


def test_topics_that_a_pattern_has_found_are_asked_for_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "offsets" / "0").write_text('v1\n{}\n{"orders-eu":{"0":1}}')
    watched = Watched(tmp_path, subscribepattern="orders-.*")
    watched.watch.look()
    assert watched.client.asked == []
    watched.watch.lag(0)
    watched.client.offsets = {"orders-eu": {0: 5}}
    watched.watch.look()
    assert watched.client.asked == ["orders-eu"]
    assert watched.watch.lag(0) == {"orders": {"orders-eu": {"0": 4}}}

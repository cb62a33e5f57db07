"""Settings: what zeros stand for, and what may change while a session runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import CONF_PREFIX, Settings
from anabranch.errors import ConfigError
from anabranch.exchange.address import PARTITIONS
from anabranch.spark.session import Session
from tests.engine.nasty_runs import bind, rows, running, stream

A, B = stream("a"), stream("b")
BATCH = {"a": rows((1, 0), (2, 0)), "b": rows((1, 0), (2, 0))}


@pytest.fixture
def run() -> Iterator[LocalRun]:
    queries = bind((A, B), q="SELECT a.id AS a, b.id AS b FROM a [NOW], b [NOW] WHERE a.k = b.k")
    with running((A, B), queries, Settings(sites=3, slots=2)) as session:
        yield session


@pytest.mark.parametrize(
    ("given", "slots", "sites"),
    [
        pytest.param(Settings(), 8, 8, id="one slot per core and one site per slot"),
        pytest.param(Settings(slots=3), 3, 3, id="one site per slot"),
        pytest.param(Settings(sites=5), 8, 5, id="as many sites as asked for"),
    ],
)
def test_zeros_stand_for_cores_and_slots(given: Settings, slots: int, sites: int) -> None:
    resolved = given.resolved(cores=8)
    assert (resolved.slots, resolved.sites) == (slots, sites)


def test_a_machine_with_more_cores_than_partitions_has_a_site_per_partition() -> None:
    resolved = Settings().resolved(cores=PARTITIONS + 64)
    assert (resolved.slots, resolved.sites) == (PARTITIONS + 64, PARTITIONS)


def test_zeros_may_be_set_while_the_session_runs(run: LocalRun) -> None:
    run.batch(BATCH)
    run.loop.change(sites=0)
    run.batch(BATCH)
    assert run.loop.partition_map.sites == 2
    run.loop.change(slots=0)
    assert len(run.batch(BATCH).reports) == 1
    assert run.results("q").num_rows == 2 * 3 * 3


def test_the_end_of_input_cannot_be_set_while_the_session_runs(run: LocalRun) -> None:
    with pytest.raises(
        ConfigError, match=r"end_of_input cannot change while the session runs.*endOfInput=True"
    ):
        run.loop.change(end_of_input="true", sites=1)
    run.batch(BATCH)
    assert run.loop.partition_map.sites == 3


class Spark:
    """As much of a Spark session as settings are read from."""

    def __init__(self, started_with: dict[str, str], running: dict[str, str]) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=2)
        self.conf = SimpleNamespace(getAll=started_with | running)  # a session begins with what was given


def prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {"spark.app.name": "x", **{CONF_PREFIX + name: value for name, value in settings.items()}}


@pytest.mark.parametrize(
    ("started_with", "running", "sites"),
    [({}, {}, 2), ({"sites": "3"}, {}, 3), ({}, {"sites": "4"}, 4), ({"sites": "3"}, {"sites": "4"}, 4)],
    ids=["nothing", "at the start", "later", "both"],
)
def test_a_setting_may_be_set_in_spark_at_the_start_or_later(
    tmp_path: Path, started_with: dict[str, str], running: dict[str, str], sites: int
) -> None:
    spark: Any = Spark(prefixed(started_with), prefixed(running))
    assert Session(spark, tmp_path).settings().sites == sites
    assert Session(spark, tmp_path, sites=7).settings().sites == 7

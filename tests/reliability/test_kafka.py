"""Kafka for real: two topics in, one out, drivers and broker killed: nothing lost, doubles told by id.

`ANABRANCH_KAFKA_MESSAGES` is the number of messages per topic, 20,000 by default.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support.kafka_broker import KafkaBroker, kafka_broker, kafka_jars
from tests.support.kafka_driver import MALFORMED, RIGHT, TOPICS
from tests.support.killed_run import Driver
from tests.support.spark_cluster import wait_until, with_tests

pytestmark = [pytest.mark.slow, pytest.mark.spark]

MESSAGES = int(os.environ.get("ANABRANCH_KAFKA_MESSAGES", "20000"))
PER_BATCH = max(MESSAGES // 10, 1)
"""Of each topic, so that ten batches or so read everything."""
TIMEOUT_S = 240 + MESSAGES / 1_000
KILLED = -9


@pytest.fixture(scope="module")
def jars() -> Path:
    found = kafka_jars()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def broker(tmp_path: Path, jars: Path) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path / "broker", jars) as running:
        yield running


def start(what: str, last: object, *, servers: str, jars: Path, root: Path, crash_at: str = "") -> Driver:
    """Start one of the programs of `kafka_driver`."""
    asked = {"PYTHONPATH": with_tests(os.environ.get("PYTHONPATH"))}
    asked |= {"ANABRANCH_CRASH_AT": crash_at} if crash_at else {}
    log = root / "driver.log"
    arguments = [what, servers, str(jars), str(root), str(last)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kafka_driver", *arguments],
            env=os.environ | asked,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Driver(process, log, log.stat().st_size)


def said(driver: Driver, words: str) -> bool:
    """Wait until a driver has said something; False if it ended without a word of it."""
    wait_until(
        lambda: words in driver.output() or driver.process.poll() is not None, words, timeout=TIMEOUT_S
    )
    return words in driver.output()


def progress(driver: Driver) -> list[dict[str, object]]:
    return [json.loads(line) for line in driver.output().splitlines() if line.startswith('{"batch"')]


def test_two_topics_joined_into_one_while_drivers_and_the_broker_are_killed(
    tmp_path: Path, jars: Path, broker: KafkaBroker
) -> None:
    where = {"servers": broker.servers, "jars": jars, "root": tmp_path}
    began = time.monotonic()
    produced = start("produce", MESSAGES, **where)  # type: ignore[arg-type]
    assert produced.wait(timeout=TIMEOUT_S) == 0, produced.output()[-3000:]
    print(f"{2 * MESSAGES:,} messages sent after {time.monotonic() - began:.0f} s", flush=True)

    began = time.monotonic()
    first = start("run", PER_BATCH, **where)  # type: ignore[arg-type]
    assert first.kill_in_batch(2, after_ms=200, group=True), first.output()[-3000:]
    second = start("run", PER_BATCH, crash_at="all results published@4", **where)  # type: ignore[arg-type]
    assert second.wait(timeout=TIMEOUT_S) == KILLED, second.output()[-3000:]

    broker.kill()
    third = start("run", PER_BATCH, **where)  # type: ignore[arg-type]
    assert said(third, f"waiting for Kafka at {broker.servers}"), third.output()[-3000:]
    broker.start()
    assert said(third, "batch 6\n"), third.output()[-3000:]
    broker.kill()
    broker.start()
    assert third.wait(timeout=TIMEOUT_S) == 0, third.output()[-3000:]
    print(f"joined after {time.monotonic() - began:.0f} s", flush=True)

    assert "answers again" in third.output()
    seen = progress(third)
    assert all(step["refused"] == 0 for step in seen)
    assert any(sum(behind.values()) for step in seen for behind in lag_of(step, "orders")), seen
    assert [sum(behind.values()) for name in TOPICS for behind in lag_of(seen[-1], name)] == [0, 0]
    letters = duckdb.sql(f"SELECT reason, row FROM '{tmp_path}/checkpoint/dead_letters/*.parquet'").fetchall()
    assert letters == [("malformed avro: cannot be read as declared", MALFORMED.hex().upper())]

    consumed = start("consume", tmp_path / "out", **where)  # type: ignore[arg-type]
    assert consumed.wait(timeout=TIMEOUT_S) == 0, consumed.output()[-3000:]
    doubles = sum(assert_nothing_lost(tmp_path / "out", query) for query in RIGHT)
    assert doubles, "the second driver died after its delivery, so that it must have come twice"
    print(f"{doubles:,} messages came twice, with the ids they had before", flush=True)


def lag_of(step: dict[str, object], stream: str) -> list[dict[str, int]]:
    """The lag of the one topic of a stream, by partition, if it was known."""
    lags = step["lag"]
    assert isinstance(lags, dict)
    found = (lags.get(stream) or {}).get(stream)
    assert found is None or list(found) == ["0", "1", "2", "3"]
    return [found] if found else []


def assert_nothing_lost(folder: Path, query: str) -> int:
    """Compare what a consumer sees of a query with DuckDB's answer; return how many messages came twice."""
    amount, paid = (TOPICS[topic][2].replace("id", "i") for topic in ("orders", "payments"))
    with duckdb.connect() as connection:
        everything = f"SELECT * FROM read_parquet('{folder}/*.parquet')"
        connection.execute(f"CREATE VIEW seen AS SELECT * FROM ({everything}) WHERE query = '{query}'")
        once = "SELECT DISTINCT ON (delivery_id) id, amount, paid FROM seen"
        right = f"SELECT i AS id, {amount} AS amount, {paid} AS paid FROM range({MESSAGES}) t(i)"
        right = f"SELECT * FROM ({right}) WHERE {RIGHT[query]}"
        for less, more, what in ((right, once, "lost"), (once, right, "made up")):
            wrong = connection.sql(f"({less}) EXCEPT ALL ({more})").fetchall()
            assert not wrong, f"{len(wrong)} messages were {what}, among them {wrong[:3]}"
        same = "count(DISTINCT (id, amount, paid, key)) = 1"
        ids = "SELECT delivery_id, count(*) AS n, {} AS same FROM seen GROUP BY delivery_id"
        repeated = connection.sql(f"SELECT * FROM ({ids.format(same)}) WHERE n > 1").fetchall()
        assert all(same for _, _, same in repeated)
        assert connection.sql("SELECT bool_and(key = id::VARCHAR) FROM seen").fetchall() == [(True,)]
    steps = {str(delivery).split("-")[0] for delivery, _, _ in repeated}
    assert len(steps) <= 2, f"results of steps {steps} came twice: at most the last before each kill may"
    return len(repeated)

"""The example of alerts: rules come and go, and each has the alerts that DuckDB finds for it."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow.compute as pc
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.support.oracle_check import check_rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "alerts" / "alerts.py"
MINUTES, RULES = 5, 100
MINUTE_US = 60_000_000


def alerts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("alerts", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stream(name: str, columns: str) -> Stream:
    declared = (column.split() for column in columns.split(", "))
    return Stream(name, tuple(Column(n, kind.lower()) for n, kind in declared), "ts", MINUTE_US)


def test_a_hundred_rules_come_and_go_and_each_has_its_alerts(tmp_path: Path) -> None:
    example = alerts()
    streams = stream("auctions", example.AUCTIONS), stream("bids", example.BIDS)
    known = {s.name: s for s in streams}
    memory = MemorySink()
    settings = Settings(sites=2, slots=2, sharing="open", rebalance="off")
    house = bind_query("house", example.ALL_BIDS, known)
    sink = shared(memory)
    run = LocalRun(tmp_path, streams, [house], sinks={"house": sink}, settings=settings)
    inputs = run.loop.layout.inputs
    minutes = [example.minute_of(m, auctions=20, bids=200) for m in range(MINUTES)]
    for number, minute in enumerate(minutes):
        for user in range(RULES):
            if number == user % 3:
                run.add(f"user{user}", example.rule(user), sink)
            elif number == 3 and user % 10 == 0:
                run.drop(f"user{user}")
        run.batch(minute)
    run.close()
    assert run.loop.layout.inputs is inputs, "a rule that fits must not change ingest"
    models, found = accepted_rows(streams, minutes), memory.table()
    for user in range(RULES):
        query = bind_query(f"user{user}", example.rule(user), known)
        first, last = user % 3 + 1, 4 if user % 10 == 0 else None
        tables = {s: model.rows_for(query, first, last) for s, model in models.items()}
        mine = found.filter(pc.equal(found.column("query"), query.name)).drop_columns(["query"])
        check_rows(mine, expected_rows(query, streams, tables), what=query.text)
    assert found.num_rows > 30


@pytest.mark.slow
def test_a_thousand_rules_on_spark(tmp_path: Path) -> None:
    found: Counter[str] = alerts().run_alerts(tmp_path, rules=1000, minutes=6)
    assert len(found) > 300

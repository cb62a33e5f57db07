"""Queries that share a sink: one file for all, each row with its query's name, exactly once."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink, memory
from anabranch.engine.sinks.parquet_sink import parquet
from anabranch.engine.sinks.shared_sink import shared
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import ConfigError, QueryError
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import Connector
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.engine.nasty_runs import bind
from tests.support.oracle_check import check_rows

BATCHES = steady_batches(6)
SETTINGS = Settings(sites=3, slots=2, max_blocks=1, rebalance="off")
TEXT = joined("a", "b").text
TEXTS = {
    "pairs": TEXT,
    "it's; DROP": f"{TEXT} AND a.v > 1",
    "späte ✈ \n": f"{TEXT} AND b.v < 2 AND a.k <> 3",
    "ones": "SELECT id AS a, id AS b FROM c WHERE v = 1",
}
BOTH = pytest.mark.parametrize("sharing", ["off", "auto"])


def started(root: Path, sinks: dict[str, object], sharing: str = "off", **more: str) -> LocalRun:
    queries = bind(STREAMS, **{name: text for name, text in (TEXTS | more).items() if name in sinks})
    settings = replace(SETTINGS, sharing=sharing)
    return LocalRun(root / "ck", STREAMS, queries, sinks=sinks, settings=settings)


def check(found: pa.Table, name: str, text: str, *, first: int = 0, last: int | None = None) -> None:
    (query,) = bind(STREAMS, **{name: text})
    mine = found.filter(pc.equal(found.column("query"), name)).drop_columns(["query"])
    models = accepted_rows(STREAMS, BATCHES)
    tables = {s: model.rows_for(query, first, last) for s, model in models.items()}
    check_rows(mine, expected_rows(query, STREAMS, tables), what=name)


def rows_in(folder: Path) -> pa.Table:
    return pads.dataset(folder, partitioning="hive").to_table()


@BOTH
def test_a_step_leaves_one_file_for_each_slot_with_the_rows_of_all(tmp_path: Path, sharing: str) -> None:
    sinks = {name: parquet(tmp_path / "out") for name in TEXTS}
    run = started(tmp_path, sinks, sharing)
    for number, batch in enumerate(BATCHES):
        run.batch(batch)
        assert len(list((tmp_path / "out").glob(f"*-{number:010d}-*.parquet"))) <= SETTINGS.slots
    run.close()
    for name, text in TEXTS.items():
        check(rows_in(tmp_path / "out"), name, text)


@BOTH
def test_folders_by_query_and_merged_files_have_the_same_rows(tmp_path: Path, sharing: str) -> None:
    sinks = {name: parquet(tmp_path / "out", partitionBy="query", compactEvery=2) for name in TEXTS}
    run = started(tmp_path, sinks, sharing)
    for batch in BATCHES:
        run.batch(batch)
    run.close()
    found = rows_in(tmp_path / "out")
    named = found.set_column(
        found.schema.get_field_index("query"), "query", found.column("query").cast(pa.string())
    )
    for name in ("pairs", "ones"):
        check(named, name, TEXTS[name])
    assert list((tmp_path / "out").glob("**/*merged*"))


@BOTH
def test_a_sink_object_gets_one_table_for_all_and_again_after_a_restart(tmp_path: Path, sharing: str) -> None:
    sink = memory()
    for part in (BATCHES[:3], BATCHES[3:]):
        run = started(tmp_path, dict.fromkeys(TEXTS, sink), sharing)
        for batch in part:
            run.batch(batch)
        run.close()
    assert sink.table().schema.names == ["query", "a", "b"]
    for name, text in TEXTS.items():
        check(sink.table(), name, text)


def test_queries_come_to_a_shared_sink_and_go(tmp_path: Path) -> None:
    where = Connector("parquet", str(tmp_path / "out"), (("shared", "true"),))
    run = started(tmp_path, {"pairs": shared(parquet(tmp_path / "out"))})
    run.batch(BATCHES[0])
    run.add("late", TEXTS["ones"], where)
    run.add("later", TEXT, Connector("parquet", str(tmp_path / "out")))
    run.batch(BATCHES[1])
    run.batch(BATCHES[2])
    run.drop("late")
    run.batch(BATCHES[3])
    run.close()
    run = started(tmp_path, {"pairs": shared(parquet(tmp_path / "out"))})
    run.drop("pairs")
    run.batch(BATCHES[4])
    run.batch(BATCHES[5])
    run.close()
    found = rows_in(tmp_path / "out")
    check(found, "pairs", TEXT, last=5)
    check(found, "late", TEXTS["ones"], first=2, last=4)
    check(found, "later", TEXT, first=2)


Message = tuple[int, str, int, dict[str, object]]
"""Step, file, place in the file, and the row: what comes twice has the first three in common."""


class Topic:
    """A topic of a broker that forgets nothing and may fail after it has taken messages."""

    only_rows = True

    def __init__(self, name: str, log: list[Message], losing: frozenset[int] = frozenset()) -> None:
        self.key = ("broker", "host:9092", name)
        self.options: dict[str, str] = {}
        self._log, self._losing = log, set(losing)

    def open(self, query: str, schema: pa.Schema) -> None:
        """There is nothing to open."""

    def publish(self, results: ResultBatch) -> None:
        for file in results.files:
            rows = pq.read_table(file, schema=results.schema).to_pylist()
            name = Path(os.fspath(file)).name
            self._log.extend((results.number, name, at, row) for at, row in enumerate(rows))
        if results.number in self._losing:
            self._losing.remove(results.number)
            raise OSError("the broker took it, and its answer was lost")


@BOTH
def test_queries_of_one_topic_send_each_row_once_by_its_id_while_they_come_and_go(
    tmp_path: Path, sharing: str
) -> None:
    log: list[Message] = []
    clock = iter(range(0, 100_000, 100))

    def topic() -> Topic:
        return Topic("alerts", log, frozenset({2}))

    def started_again() -> LocalRun:
        queries = bind(STREAMS, **{name: TEXTS[name] for name in ("pairs", "it's; DROP")})
        sinks = {name: topic() for name in TEXTS}  # of `ones`, too, for it is there again after the restart
        settings = replace(SETTINGS, sharing=sharing)
        return LocalRun(
            tmp_path / "ck",
            STREAMS,
            queries,
            sinks=sinks,
            settings=settings,
            clock=lambda: float(next(clock)),
        )

    run = started_again()
    for number, batch in enumerate(BATCHES[:3]):
        if number == 1:
            run.add("ones", TEXTS["ones"], topic())
        run.batch(batch)
    run.close()
    run = started_again()
    run.drop("ones")
    for batch in BATCHES[3:]:
        run.batch(batch)
    run.close()
    once = {message[:3]: message[3] for message in log}
    assert len(log) > len(once), "a step whose answer was lost is sent again"
    assert {m[0] for m, times in Counter(m[:3] for m in log).items() if times > 1} == {2}
    found = pa.Table.from_pylist(list(once.values()))
    assert found.schema.names == ["query", "a", "b"]
    for name in ("pairs", "it's; DROP"):
        check(found, name, TEXTS[name])
    check(found, "ones", TEXTS["ones"], first=2, last=4)


def test_a_sink_that_a_query_has_alone_stays_so(tmp_path: Path) -> None:
    run = started(tmp_path, {"pairs": parquet(tmp_path / "out")})
    with pytest.raises(ConfigError, match=r"'pairs' has its sink alone.*shared = 'true'"):
        run.add("more", TEXT, Connector("parquet", str(tmp_path / "out")))
    run.batch(BATCHES[0])
    run.close()
    assert "query" not in rows_in(tmp_path / "out").schema.names
    with pytest.raises(ConfigError, match="'pairs' has its sink alone"):
        started(tmp_path, {name: parquet(tmp_path / "out") for name in ("pairs", "ones")})


def test_queries_with_other_columns_cannot_share(tmp_path: Path) -> None:
    other = {"other": "SELECT id AS a FROM c", "named": "SELECT id AS a, id AS query FROM c"}
    for name, why in (
        ("other", "columns a int, b int: select the same"),
        ("named", "give its own another name"),
    ):
        with pytest.raises(ConfigError, match=why):
            started(tmp_path, dict.fromkeys(("pairs", name), memory()), **other)
    sinks = {"pairs": parquet(tmp_path / "o", partitionBy="a"), "ones": parquet(tmp_path / "o")}
    with pytest.raises(ConfigError, match="other options"):
        started(tmp_path, sinks)


def test_a_flow_file_says_where_columns_differ() -> None:
    head = "CREATE STREAM c (id INT, ts TIMESTAMP) FROM json 'in' TIME ts;\n"
    first = "CREATE QUERY one INTO parquet 'out/x' AS SELECT id FROM c;\n"
    for select, why in (("id, ts", "columns id int"), ("id AS query", "adds a column 'query'")):
        with pytest.raises(QueryError, match=why) as told:
            parse_flow(f"{head}{first}CREATE QUERY two INTO PARQUET 'out/./x' AS SELECT {select} FROM c;")
        assert told.value.line == 3
    parse_flow(f"{head}{first}CREATE QUERY two INTO parquet 'out/y' AS SELECT ts FROM c;")


def test_a_query_over_its_quota_leaves_a_shared_file_and_the_others_stay(tmp_path: Path) -> None:
    sink = MemorySink()
    queries = bind(STREAMS, pairs=TEXT, ones=TEXTS["ones"])
    settings = Settings(sites=2, slots=2, quota_pairs=1)
    run = LocalRun(
        tmp_path, STREAMS, queries, sinks=dict.fromkeys(("pairs", "ones"), sink), settings=settings
    )
    for batch in BATCHES:
        run.batch(batch)
    run.close()
    assert set(run.loop.failures) == {"pairs"}
    assert set(sink.table().column("query").to_pylist()) == {"ones"}
    check(sink.table(), "ones", TEXTS["ones"])


def test_progress_tells_rows_by_query(tmp_path: Path) -> None:
    run = started(tmp_path, dict.fromkeys(TEXTS, memory()))
    run.batch(BATCHES[0])
    told = run.record.progress[-1].queries
    found = run.results("pairs").column("query").to_pylist()
    assert {name: told[name].output_rows for name in TEXTS} == {name: found.count(name) for name in TEXTS}
    run.close()

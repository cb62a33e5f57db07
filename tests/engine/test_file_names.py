"""Files of results are told apart, whatever the queries are called."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.errors import SinkError
from anabranch.language.flow import bind_query
from anabranch.state import PosixStorage
from anabranch.state.manifest import ResultFile
from anabranch.state.paths import DEAD_LETTERS, file_stem
from tests.engine.nasty_runs import START, rows, stream
from tests.support.storages import stored_rows

A = stream("a")
LONG = "all_orders_of_the_customers_who_have_paid_more_than_they_owe_in_"


@pytest.mark.parametrize(
    "names",
    [("q.1", "q_1", "q 1"), (LONG + "may", LONG + "june"), ("订单", "客户"), ("q", "q_", "_q", "_")],
    ids=["other signs", "the same first 60 letters", "no Latin letter", "underscores at the ends"],
)
def test_queries_with_similar_names_share_a_sink_directory(tmp_path: Path, names: tuple[str, ...]) -> None:
    queries = [bind_query(name, f"SELECT id, {n} AS number FROM a", {"a": A}) for n, name in enumerate(names)]
    sinks = {name: ParquetSink(tmp_path / "out") for name in names}
    run = LocalRun(tmp_path / "checkpoint", [A], queries, sinks=sinks)
    run.batch({"a": rows((1, 1), (2, 2))})
    run.batch({"a": rows((1, 3))})
    run.close()
    found = pq.read_table(tmp_path / "out").select(["query", "number"]).to_pylist()
    told = sorted((row["number"], row["query"]) for row in found)
    assert told == [(number, name) for number, name in enumerate(names) for _ in range(3)]


def test_a_query_may_be_called_dead_and_refuse_rows(tmp_path: Path) -> None:
    itself = "SELECT x.id FROM a [NOW] x, a [NOW] y WHERE x.id = y.id"  # a query with state refuses late rows
    run = LocalRun(tmp_path, [A], [bind_query("dead", itself, {"a": A})])
    run.batch({"a": rows((1, 10))})
    run.batch({"a": rows((1, 20), (1, 5))})
    run.close()
    assert run.results("dead").num_rows == 2
    assert [row["event_time_us"] for row in stored_rows(run.storage, DEAD_LETTERS)] == [START + 5]


@pytest.mark.parametrize("name", ["orders", "under-paid_2", "a" * 60])
def test_a_name_that_is_fit_for_a_file_stays_as_it_is(name: str) -> None:
    assert file_stem(name) == name


@pytest.mark.parametrize(("present", "at", "refused"), [(9_999, 10_000, False), (10_000, 9_999, True)])
def test_steps_are_compared_by_number_however_many_there_are(
    tmp_path: Path, present: int, at: int, refused: bool
) -> None:
    (tmp_path / "staged").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "staged" / "r.parquet")

    def publish(step: int) -> None:
        files = (StagedFile(PosixStorage(tmp_path), ResultFile("q", "r.parquet", 1, 0, "")),)
        ParquetSink(tmp_path / "out").publish(ResultBatch("q", 3, step, step, pa.schema([]), files))

    (tmp_path / "out").mkdir()
    publish(present)
    with pytest.raises(SinkError, match="does not know") if refused else nullcontext():
        publish(at)

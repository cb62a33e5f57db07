"""More text than 32-bit offsets can tell apart, with the limits lowered."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import local_driver
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task.arrival import arrivals
from anabranch.engine.task.results import staging
from anabranch.operators.rows.row_set import concat_rows
from anabranch.plan.logical import Column, Stream
from anabranch.state.paths import DEAD_LETTERS
from anabranch.testing.stream_model import scratch
from tests.engine.nasty_runs import START, bind
from tests.support.storages import stored_tables

NOTES = Stream("notes", (Column("k", "bigint"), Column("text", "string"), Column("ts", "timestamp")), "ts", 0)
MOST_BYTES = 1000


def notes(*times: int | None) -> pa.Table:
    """Rows with 100 letters each."""
    ts = pa.array([None if t is None else START + t for t in times], pa.int64())
    texts = [f"{number:0100}" for number in range(len(times))]
    return pa.table({"k": range(len(times)), "text": texts, "ts": ts.cast(pa.timestamp("us"))})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRun]:
    """A session whose slots receive text as from Spark, with 32-bit offsets."""

    def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = [f.with_type(pa.string()) if f.type == pa.large_string() else f for f in batch.schema]
        return batch.cast(pa.schema(fields))

    monkeypatch.setattr(staging, "MOST_BYTES", MOST_BYTES)
    split = local_driver.rows_by_slot
    monkeypatch.setattr(
        local_driver, "rows_by_slot", lambda task, rows: [list(map(narrow, b)) for b in split(task, rows)]
    )
    queries = bind((NOTES,), all_notes="SELECT k, text FROM notes [NOW]")
    with scratch() as root:
        running = LocalRun(root, (NOTES,), queries, settings=Settings(sites=1, slots=1))
        yield running
        running.close()


def test_batches_of_text_are_put_together_with_64_bit_offsets(
    run: LocalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()

    def watched(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        seen.update(kind for batch in batches for kind in batch.schema.types)
        return concat_rows(batches)

    monkeypatch.setattr(arrivals, "concat_rows", watched)
    run.batch({"notes": notes(1, 2, 3)})
    assert seen == {pa.int32(), pa.int64(), pa.large_string()}
    assert sorted(run.results("all_notes").column("text").to_pylist()) == [f"{n:0100}" for n in range(3)]


def test_results_are_written_in_pieces_whose_text_has_room(
    run: LocalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[pa.Table] = []
    write_table = pq.ParquetWriter.write_table

    def watched(self: pq.ParquetWriter, table: pa.Table, **options: int) -> None:
        written.append(table)
        write_table(self, table, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", watched)
    run.batch({"notes": notes(*range(50))})
    chunks = [chunk for table in written for chunk in table.column("text").chunks]
    assert max(chunk.nbytes for chunk in chunks) <= MOST_BYTES
    assert sum(map(len, chunks)) == 50
    assert sorted(run.results("all_notes").column("k").to_pylist()) == list(range(50))


def test_dead_letters_are_written_in_pieces_whose_text_has_room(
    run: LocalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[pa.Table] = []
    write_table = pq.write_table
    monkeypatch.setattr(pq, "write_table", lambda rows, file: (written.append(rows), write_table(rows, file)))
    run.batch({"notes": notes(*range(1000, 1020), *[None] * 40)})  # without a time
    chunks = [chunk for table in written for chunk in table.column("row").chunks]
    assert max(chunk.nbytes for chunk in chunks) <= MOST_BYTES
    letters = pa.concat_tables(stored_tables(run.storage, DEAD_LETTERS))
    assert letters.num_rows == 40
    assert letters.schema.field("row").type == pa.string()

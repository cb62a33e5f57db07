"""The parquet sink: folders of partitions, merged files, and what readers see meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from anabranch.engine.sinks import folder_exchange
from anabranch.engine.sinks.parquet_sink import ParquetSink, parquet
from anabranch.engine.sinks.result_merge import files_due
from anabranch.engine.sinks.result_names import ResultName
from anabranch.engine.sinks.result_partitions import MOST_PARTITIONS
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.errors import ConfigError, SinkError
from anabranch.state import PosixStorage
from anabranch.state.manifest import ResultFile
from anabranch.state.paths import STAGED

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.large_string()), ("day", pa.date32()), ("n", pa.int32())])


def batch_of(checkpoint: Path, number: int, rows: pa.Table, query: str = "q") -> ResultBatch:
    """Results of a batch as the batch loop hands them over."""
    folder = checkpoint / STAGED
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{query}-{number}.parquet"
    pq.write_table(rows, folder / name, compression="zstd")
    file = ResultFile(query, name, rows.num_rows, (folder / name).stat().st_size, "")
    staged = StagedFile(PosixStorage(checkpoint), file)
    return ResultBatch(query, number, 0, number, rows.schema, (staged,))


def rows_of(number: int) -> pa.Table:
    kinds = ["a", None, "b/c d", ""]
    days = [date(2026, 1, 1), date(2026, 1, 2), None, date(2026, 1, 1)]
    ids = [number * 4 + i for i in range(4)]
    return pa.table([ids, kinds, days, [number] * 4], schema=SCHEMA)


def ids_in(folder: Path) -> list[int]:
    return sorted(pads.dataset(folder, partitioning="hive").to_table().column("id").to_pylist())


def test_rows_are_put_into_folders_that_other_engines_understand(tmp_path: Path) -> None:
    sink = parquet(tmp_path / "out", partitionBy=["kind", "day"])
    sink.open("q", SCHEMA)
    for number in range(3):
        sink.publish(batch_of(tmp_path / "ck", number, rows_of(number)))
    assert ids_in(tmp_path / "out") == list(range(12))
    found = duckdb.sql(
        "SELECT kind, day, count(*) "
        f"FROM read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning=true) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    # An empty text is NULL here, as with Spark.
    assert found == [
        ("a", date(2026, 1, 1), 3),
        ("b/c d", None, 3),
        (None, date(2026, 1, 1), 3),
        (None, date(2026, 1, 2), 3),
    ]


def test_a_batch_that_comes_again_changes_nothing_and_another_one_is_refused(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out", partition_by=["n"])
    sink.open("q", SCHEMA)
    for _ in range(2):
        sink.publish(batch_of(tmp_path / "ck", 0, rows_of(0)))
    assert ids_in(tmp_path / "out") == [0, 1, 2, 3]
    other = rows_of(0).set_column(0, "id", pa.array([9, 9, 9, 9]))
    with pytest.raises(SinkError, match="does not know"):
        sink.publish(batch_of(tmp_path / "ck", 0, other))


@pytest.mark.parametrize("columns", [(), ("n",)])
def test_a_checkpoint_older_than_the_merged_results_is_refused(
    tmp_path: Path, columns: tuple[str, ...]
) -> None:
    rows = [rows_of(number).set_column(3, "n", pa.array([1] * 4, pa.int32())) for number in range(6)]
    sink = ParquetSink(tmp_path / "out", partition_by=columns, compact_every=2)
    sink.open("q", SCHEMA)
    for number in range(6):
        sink.publish(batch_of(tmp_path / "ck", number, rows[number]))
    assert ids_in(tmp_path / "out") == list(range(24))
    restarted = ParquetSink(tmp_path / "out", partition_by=columns, compact_every=2)
    restarted.open("q", SCHEMA)
    with pytest.raises(SinkError, match="does not know"):
        restarted.publish(batch_of(tmp_path / "ck", 3, rows[3]))


def test_whoever_lists_the_folder_meanwhile_sees_every_row_once(tmp_path: Path) -> None:
    out, batches = tmp_path / "out", 60
    sink = ParquetSink(out, compact_every=2)
    sink.open("q", SCHEMA)
    published, seen, failed = [0], [0], []

    def read() -> None:
        while published[0] < batches:
            least = published[0]
            try:
                # The names at one moment, and the files behind them; one that is gone is told, not missed.
                ids = Counter(i for f in out.glob("*.parquet") for i in pq.read_table(f)["id"].to_pylist())
            except FileNotFoundError:
                continue
            seen[0] += 1
            is_wrong = any(n != 1 for n in ids.values()) or not ids.keys() >= set(range(4 * least))
            # A folder that was exchanged stays until the next results: later it may be found empty.
            if is_wrong and published[0] <= least + 1:
                failed.append((least, ids))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(batches):
        sink.publish(batch_of(tmp_path / "ck", number, rows_of(number)))
        published[0] = number + 1
    reader.join()
    assert seen[0] > 3
    assert not failed, failed[0]
    assert len(list(out.iterdir())) < 12


def test_files_of_a_level_are_merged_when_there_are_enough_of_them(tmp_path: Path) -> None:
    def named(first: int, last: int, level: int, number: int = 0) -> tuple[ResultName, Path]:
        name = ResultName((first, 0), (last, 0), number, level)
        (tmp_path / name.file("q")).touch()
        return name, tmp_path / name.file("q")

    one_step = [named(8, 8, 0), named(8, 8, 0, 1)]
    assert files_due(one_step, before=(9, 0), every=2) == []
    two_steps = [*one_step, named(9, 9, 0)]
    assert files_due(two_steps, before=(9, 0), every=2) == []
    assert files_due(two_steps, before=(10, 0), every=2) == two_steps
    merged = [named(0, 3, 1), named(4, 7, 1)]
    assert files_due([*merged, *one_step], before=(10, 0), every=2) == merged


def test_what_cannot_be_merged_stays_as_it_is_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = ParquetSink(tmp_path / "out", compact_every=2)
    sink.open("q", SCHEMA)
    (tmp_path / "out" / "of the user").mkdir()
    for number in range(4):
        sink.publish(batch_of(tmp_path / "ck", number, rows_of(number)))
    assert ids_in(tmp_path / "out") == list(range(16))
    assert "were not merged" in caplog.text


def test_a_merged_file_is_compressed_as_its_parts_were(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out", compact_every=2)
    sink.open("q", SCHEMA)
    for number in range(3):
        sink.publish(batch_of(tmp_path / "ck", number, rows_of(number)))
    (merged,) = (tmp_path / "out").glob("*merged1*")
    assert pq.read_metadata(merged).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition_by": ["nope"]}, "no column 'nope': choose from id, kind, day, n"),
        ({"partition_by": ["id", "kind", "day", "n"]}, "at least one column"),
        ({"compact_every": 1}, "2 or more"),
        ({"compact_every": -3}, "2 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        ParquetSink(tmp_path / "out", **options).open("q", SCHEMA)  # type: ignore[arg-type]


def test_a_column_whose_values_are_no_names_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("y", pa.int64())])
    with pytest.raises(ConfigError, match="is a double: choose a text, a whole number"):
        ParquetSink(tmp_path / "out", partition_by=["x"]).open("q", schema)


def test_a_column_with_too_many_values_is_refused_with_its_name(tmp_path: Path) -> None:
    many = MOST_PARTITIONS + 1
    rows = pa.table({"id": range(many), "n": pa.array(range(many), pa.int32())})
    sink = ParquetSink(tmp_path / "out", partition_by=["n"])
    sink.open("q", rows.schema)
    with pytest.raises(SinkError, match="partitionBy = n: 1,001 different values"):
        sink.publish(batch_of(tmp_path / "ck", 0, rows))


def test_a_file_system_that_cannot_exchange_folders_is_told_before_the_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_exchange, "_libc", lambda: None)
    with pytest.raises(ConfigError, match=r"compactEvery: .*cannot be exchanged in one step"):
        ParquetSink(tmp_path / "out", compact_every=2).open("q", SCHEMA)
    assert [f.name for f in tmp_path.iterdir()] == ["out"]

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pytest

from anabranch.state.block import map_block, unique_part, write_block
from anabranch.state.errors import CorruptionError, InvalidNameError
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage
from tests.state.samples import sample_block, sample_table


def test_a_block_reads_back_as_one_equal_batch(storage: Storage) -> None:
    table = sample_table(1000)
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])
    meta = write_block(
        storage,
        chunks,
        state="orders ⋈ payments",
        stamp=Stamp(2, 14, 1),
        batch=12,
        slot=3,
        unique=unique_part(77),
        min_ts=5,
        max_ts=9,
        max_deadline=20,
        partitions=[(4, 400), (2, 0), (1, 600)],
    )
    assert map_block(storage, meta).equals(table.combine_chunks().to_batches()[0])
    assert len(storage.read(f"blocks/{meta.name}")) == meta.bytes
    assert meta.name.startswith("e00000002-b0000000014.0001-s003-orders_payments-77-")
    assert (meta.rows, meta.batch, meta.last_batch, meta.max_deadline) == (1000, 12, 12, 20)
    assert meta.partitions == ((1, 600), (4, 400))


def test_a_leaf_block_has_its_largest_time_as_deadline(storage: Storage) -> None:
    assert sample_block(storage, max_ts=10).max_deadline == 10


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(sample_table(0), id="no rows"),
        pytest.param(sample_table(100).slice(13, 20), id="slice"),
        pytest.param(pa.table({"x": pa.array([None, None])}), id="only NULL"),
        pytest.param(pa.table({"x": pa.array(["a" * 70_000, "", None], pa.large_string())}), id="long text"),
        pytest.param(pa.table({f"c{i}": [i] for i in range(2000)}), id="wide"),
        pytest.param(
            pa.table(
                {
                    "x": pa.chunked_array(
                        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
                    )
                }
            ),
            id="two dictionaries",
        ),
        pytest.param(
            pa.table({"x": pa.array(["short", "a text too long to be inlined"], pa.string_view())}), id="view"
        ),
    ],
)
def test_any_arrow_data_survives(storage: Storage, table: pa.Table) -> None:
    meta = write_block(
        storage, table, state="s", stamp=Stamp(1, 0, 0), batch=0, slot=0, unique="u", min_ts=0, max_ts=0
    )
    assert map_block(storage, meta).to_pylist() == table.to_pylist()
    assert map_block(storage, meta).schema == table.schema


def test_an_open_block_is_mapped_and_not_copied(storage: Storage) -> None:
    meta = sample_block(storage, rows=100_000)
    before = pa.total_allocated_bytes()
    block = map_block(storage, meta)
    assert block.num_rows == 100_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_an_open_block_outlives_its_file(storage: Storage) -> None:
    meta = sample_block(storage, rows=1000)
    block = map_block(storage, meta)
    storage.delete(f"blocks/{meta.name}")
    assert block.to_pylist() == sample_table(1000).to_pylist()


def test_two_runs_of_one_task_never_share_a_name(storage: Storage) -> None:
    first, second = (sample_block(storage, unique=unique_part(5)) for _ in range(2))
    assert first.name != second.name
    sample_block(storage, unique="same")
    with pytest.raises(FileExistsError):
        sample_block(storage, unique="same")


def test_sites_that_share_nothing_have_folders_of_their_own(storage: Storage) -> None:
    meta = sample_block(storage, folder="site-3")
    assert meta.name.startswith("site-3/")
    assert map_block(storage, meta).num_rows == meta.rows
    with pytest.raises(InvalidNameError):
        sample_block(storage, folder="../elsewhere")


def test_a_manifest_cannot_make_us_open_a_file_elsewhere(storage: Storage) -> None:
    meta = dataclasses.replace(sample_block(storage), name="../secret.arrow")
    with pytest.raises(InvalidNameError):
        map_block(storage, meta)


def test_a_missing_block_is_an_error_that_names_the_file_and_the_way_out(storage: Storage) -> None:
    meta = sample_block(storage)
    storage.delete(f"blocks/{meta.name}")
    with pytest.raises(CorruptionError) as caught:
        map_block(storage, meta)
    assert meta.name in str(caught.value)
    assert f"expected {meta.bytes} bytes, found no file" in str(caught.value)
    assert "restore the checkpoint" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_wrong_row_count_is_an_error(storage: Storage) -> None:
    meta = dataclasses.replace(sample_block(storage, rows=50), rows=51)
    with pytest.raises(CorruptionError, match="expected 51 rows in one batch, found 50 rows"):
        map_block(storage, meta)

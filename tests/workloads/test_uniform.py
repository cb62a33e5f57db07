from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.workloads.uniform import (
    Workload,
    auction_streams,
    skewed_streams,
    three_streams,
    uniform_streams,
)

Maker = Callable[..., Workload]
MAKERS = [uniform_streams, skewed_streams, three_streams]


def table(directory: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(p) for p in sorted(directory.iterdir()))


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(make: Maker, tmp_path: Path) -> None:
    one, again, other = (
        make(tmp_path / name, batches=2, rows_per_batch=50, seed=seed)
        for name, seed in (("one", 1), ("again", 1), ("other", 2))
    )
    assert all(table(x.path).equals(table(y.path)) for x, y in zip(one.streams, again.streams, strict=True))
    assert not any(
        table(x.path).equals(table(y.path)) for x, y in zip(one.streams, other.streams, strict=True)
    )
    assert not table(one.streams[0].path)["k"].equals(table(one.streams[1].path)["k"])


def test_modification_times_follow_the_names(tmp_path: Path) -> None:
    work = auction_streams(tmp_path, batches=12, bids_per_batch=20)
    for stream in work.streams:
        files = sorted(stream.path.iterdir())
        dates = [f.stat().st_mtime for f in files]
        assert len(files) == 12
        assert dates == sorted(set(dates))


@pytest.mark.parametrize("make", [uniform_streams, skewed_streams])
def test_no_row_is_late_when_the_lateness_is_the_disorder(make: Maker, tmp_path: Path) -> None:
    work = make(tmp_path, batches=6, rows_per_batch=2000, interval_us=1000, disorder_us=700)
    for stream in work.streams:
        latest, disordered = 0, False
        for file in sorted(stream.path.iterdir()):
            ts = pq.read_table(file)["ts"].cast(pa.int64()).to_numpy()
            assert ts.min() >= latest - work.disorder_us
            disordered |= bool((np.diff(ts) < 0).any()) and bool(ts.min() < latest)
            latest = max(latest, ts.max())
        assert disordered


@pytest.mark.parametrize("rows", [500, 5000])
def test_matches_per_row_do_not_depend_on_the_batch_size(tmp_path: Path, rows: int) -> None:
    work = uniform_streams(tmp_path, batches=22, rows_per_batch=rows)
    pairs = duckdb.sql(
        f"SELECT count(*) FROM '{work['a'].path}/*.parquet' a JOIN '{work['b'].path}/*.parquet' b"
        " ON a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 10 * 1000000"
    ).fetchall()[0][0]
    assert pairs / (22 * rows) == pytest.approx(2_500_000 / 1_100_000, rel=0.05)


def test_zipf_crowds_rows_on_few_keys_and_can_shift_them(tmp_path: Path) -> None:
    work = skewed_streams(tmp_path, batches=4, rows_per_batch=5000, shift_every=2)
    first, second, third, _ = (pq.read_table(p)["k"].to_numpy() for p in sorted(work["a"].path.iterdir()))
    hot = [np.bincount(keys).argmax() for keys in (first, second, third)]
    assert (first == hot[0]).mean() > 0.05
    assert hot[0] == hot[1] != hot[2]
    assert np.unique(table(work["b"].path)["k"].to_numpy()).size > 10_000


def test_string_keys_match_as_the_numbers_do(tmp_path: Path) -> None:
    numbers = uniform_streams(tmp_path / "int", batches=1, rows_per_batch=100)
    strings = uniform_streams(tmp_path / "string", batches=1, rows_per_batch=100, keys="string")
    assert strings["a"].ddl == "id BIGINT, k STRING, v DOUBLE, ts TIMESTAMP"
    expected = [f"customer-{k}" for k in table(numbers["a"].path)["k"].to_pylist()]
    assert table(strings["a"].path)["k"].to_pylist() == expected


def test_bids_and_auctions_refer_to_what_exists(tmp_path: Path) -> None:
    work = auction_streams(tmp_path, batches=5, bids_per_batch=2000)
    assert [s.rows for s in work.streams] == [500, 1500, 10_000]
    persons, auctions, bids = (f"'{path}/*.parquet'" for path in work.paths)
    joined = duckdb.sql(
        f"SELECT count(*), bool_and(b.seller = a.seller), count(DISTINCT p.id) FROM {bids} b"
        f" JOIN {auctions} a ON b.auction = a.id JOIN {persons} p ON a.seller = p.id"
    ).fetchall()[0]
    assert joined[:2] == (10_000, True)
    assert joined[2] > 250


def test_streams_may_be_empty(tmp_path: Path) -> None:
    work = uniform_streams(tmp_path, batches=2, rows_per_batch=0)
    assert work.rows == 0
    assert len(list(work["b"].path.iterdir())) == 2

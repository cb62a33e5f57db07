"""Which directories checkpoints and exactly-once sinks may name."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.engine.sinks.local_path import local_path
from anabranch.errors import ConfigError


@pytest.mark.parametrize("url", ["file:///tmp/out", "file:/tmp/out", "FILE://localhost/tmp/out"])
def test_a_file_url_is_the_directory_it_names(url: str) -> None:
    assert ab.parquet(url).path == Path("/tmp/out")


@pytest.mark.parametrize("path", ["out", "/tmp/a:b/c", "/tmp/s3:/x", "a b", "a:b", "C:/x"])
def test_what_is_no_url_stays_as_it_is(path: str) -> None:
    assert ab.parquet(path).path == Path(path)
    assert ab.parquet(Path(path)).path == Path(path)


@pytest.mark.parametrize(
    "url", ["s3://bucket/out", "s3a://b/o", "hdfs://host:8020/o", "dbfs:/o", "file://other/o"]
)
def test_a_directory_that_is_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"parquet sink '.*' is not .* local or mounted directory"):
        ab.parquet(url)


def test_a_url_that_went_through_pathlib_is_refused() -> None:
    with pytest.raises(ConfigError, match="local or mounted"):
        local_path(Path("s3://bucket/out"), what="checkpoint")


def test_a_checkpoint_that_is_elsewhere_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ConfigError, match="checkpoint 'hdfs://host/ck' is not"):
        ab.Session(None, "hdfs://host/ck")  # type: ignore[arg-type]

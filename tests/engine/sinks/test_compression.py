"""Files of results are compressed as asked for, where they are what the user gets."""

from __future__ import annotations

import pytest

from anabranch.engine.sinks.compression import compression_of
from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector


def parquet(asked: str) -> Connector:
    return Connector("PARQUET", "out", (("Compression", asked),))


@pytest.mark.parametrize(("asked", "wanted"), [("ZSTD", "zstd"), ("uncompressed", "none"), ("none", "none")])
def test_the_word_of_the_user_counts_whatever_its_case(asked: str, wanted: str) -> None:
    assert compression_of(parquet(asked)) == wanted


def test_files_that_spark_reads_again_are_compressed_fast() -> None:
    assert compression_of(Connector("delta", "out", (("compression", "gzip"),))) == "snappy"


def test_an_unknown_word_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="compression = 'zip': choose from snappy, zstd"):
        compression_of(parquet("zip"))

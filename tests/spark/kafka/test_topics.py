"""Which topics streams read, and how far they are behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.spark.kafka.topics import KafkaSource, lag_of, positions


def log_of(checkpoint: Path, *lines: str) -> Path:
    folder = checkpoint / "spark" / "offsets"
    folder.mkdir(parents=True)
    (folder / "7").write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))
    return checkpoint


@pytest.mark.parametrize("named", [False, True], ids=["by position", "by name"])
def test_positions_are_read_whatever_else_the_session_reads(tmp_path: Path, named: bool) -> None:
    lines = ['{"orders":{"0":401,"1":397}}', '{"logOffset":3}', '{"payments":{"0":12}}']
    lines = [f"stream_{i}:{line}" if named else line for i, line in enumerate(lines)]
    checkpoint = log_of(tmp_path, *lines, "-")  # the last has no offset yet
    assert positions(checkpoint, 7) == {"orders": {0: 401, 1: 397}, "payments": {0: 12}}
    assert positions(checkpoint, 8) == {}


def test_a_topic_that_is_read_twice_is_as_far_as_the_slower_reader(tmp_path: Path) -> None:
    checkpoint = log_of(tmp_path, '{"orders":{"0":10,"1":9}}', '{"orders":{"0":4,"1":30}}')
    assert positions(checkpoint, 7) == {"orders": {0: 4, 1: 9}}


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"subscribe": "orders, refunds"}, {"orders", "refunds"}),
        ({"assign": '{"orders":[0,1]}'}, {"orders"}),
        ({"subscribepattern": "re.*|pay"}, {"refunds"}),
    ],
)
def test_a_source_reads_topics_by_name_or_by_pattern(options: dict[str, str], read: set[str]) -> None:
    source = KafkaSource("s", options)
    assert {topic for topic in ("orders", "payments", "refunds") if source.reads(topic)} == read


def test_a_partition_of_which_brokers_said_nothing_has_no_lag() -> None:
    source = KafkaSource("s", {"subscribe": "orders"})
    read = {"orders": {0: 5, 1: 7, 2: 9}, "other": {0: 0}}
    assert lag_of(source, read, {"orders": {0: 8, 1: 7}, "other": {0: 4}}) == {"orders": {"0": 3, "1": 0}}
    # An answer may be older than what was read since.
    assert lag_of(source, {"orders": {0: 9}}, {"orders": {0: 8}}) == {"orders": {"0": 0}}

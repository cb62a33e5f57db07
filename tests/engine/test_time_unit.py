"""Numbers in another unit than microseconds are told at the first batch, not found out from results."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from tests.engine.nasty_runs import bind, stream

A = stream("a")
TODAY_S = 1_795_000_000


def _told(root: Path, *times: int) -> list[list[str]]:
    session = LocalRun(root, (A,), bind((A,), q="SELECT id FROM a"))
    tables = [pa.table({"id": [0], "k": [0], "ts": pa.array([t], pa.timestamp("us"))}) for t in times]
    events = [session.batch({"a": table}).events for table in tables]
    session.close()
    return [[e.message for e in found if e.kind == "time_unit"] for found in events]


@pytest.mark.parametrize(
    ("unit", "function", "per_second"), [("seconds", "seconds", 1), ("milliseconds", "millis", 1000)]
)
def test_times_of_today_in_another_unit_are_told_once(
    tmp_path: Path, unit: str, function: str, per_second: int
) -> None:
    (first,), later = _told(tmp_path, TODAY_S * per_second, (TODAY_S + 9) * per_second)
    assert f"where {unit} of today would be" in first
    assert f"timestamp_{function}(" in first
    assert not later


@pytest.mark.parametrize("time", [TODAY_S * 1_000_000, 0, 40_000_000])
def test_times_in_microseconds_are_nothing_to_tell_of(tmp_path: Path, time: int) -> None:
    assert _told(tmp_path, time) == [[]]

"""The test kit: it gives what a session would, and says what is wrong with a test."""

from __future__ import annotations

import importlib
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.testing import FlowTest

FLOW = """
CREATE STREAM a (k BIGINT, x DOUBLE, ts TIMESTAMP) FROM csv 'a' TIME ts LATENESS 1 MINUTE;
CREATE STREAM b (k BIGINT, t STRING, ts TIMESTAMP) FROM csv 'b' TIME ts LATENESS 1 MINUTE;
CREATE QUERY pairs INTO parquet 'p' AS
  SELECT a.k, a.x, b.t FROM a [RANGE 5 MINUTES], b [RANGE 5 MINUTES] WHERE a.k = b.k;
CREATE QUERY per_key INTO parquet 'q' AS
  SELECT k, count(*) AS n FROM a GROUP BY k, window(ts, '10 minutes');
"""


def at(minute: int, **values: object) -> dict[str, object]:
    return {**values, "ts": f"2026-01-01 12:{minute:02d}:00"}


def test_rows_of_several_batches_meet_and_results_agree_with_batch_sql() -> None:
    with FlowTest(FLOW) as flow:
        flow.batch(a=[at(0, k=1, x=1.5), at(1, k=2, x=2.5)])
        flow.batch(b=[at(4, k=1, t="one"), at(9, k=2, t="two")])
        assert flow.results("pairs") == [{"k": 1, "x": 1.5, "t": "one"}]
        assert flow.results("PER_KEY") == []
        flow.check()
        assert sorted((r["k"], r["n"]) for r in flow.results("per_key")) == [(1, 1), (2, 1)]


def test_late_rows_are_counted_and_not_joined() -> None:
    with FlowTest(FLOW) as flow:
        flow.batch(a=[at(30, k=1)])
        flow.batch(a=[at(10, k=1)], b=[at(30, k=1)])
        assert flow.late == {"a": 1, "b": 0}
        assert len(flow.results("pairs")) == 1
        flow.check()


def test_times_may_have_zones_and_missing_columns_are_null() -> None:
    east = timezone(timedelta(hours=2))
    with FlowTest(FLOW) as flow:
        flow.batch(
            a=[{"k": 1, "ts": datetime(2026, 1, 1, 14, 0, tzinfo=east)}],
            b=[{"k": 1, "ts": datetime(2026, 1, 1, 12, 1)}],
        )
        assert flow.results("pairs") == [{"k": 1, "x": None, "t": None}]


def test_check_finds_a_result_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with FlowTest(FLOW) as flow:
        flow.batch(a=[at(0, k=1, x=1.0)], b=[at(0, k=1, t="t")])
        real = flow._run.results
        monkeypatch.setattr(flow._run, "results", lambda query: real(query).slice(1))
        with pytest.raises(AssertionError, match="query pairs: 0 rows, expected 1"):
            flow.check()


def test_what_a_test_gets_wrong_is_said() -> None:
    with FlowTest(FLOW) as flow:
        with pytest.raises(ConfigError, match="no stream 'c': choose from a, b"):
            flow.batch(c=[])
        with pytest.raises(ConfigError, match="stream 'a' has no column 'y': choose from k, x, ts"):
            flow.batch(a=[{"y": 1}])
        with pytest.raises(ConfigError, match="no query 'nope': choose from pairs, per_key"):
            flow.results("nope")
    with pytest.raises(ConfigError, match="no flow file"):
        FlowTest("nowhere.sql")


def test_the_kit_is_found_as_ab_testing_and_needs_no_spark() -> None:
    assert ab.testing is importlib.import_module("anabranch.testing")
    code = "import sys, anabranch as ab; ab.testing.FlowTest; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_tests_of_the_example_pass() -> None:
    example = Path(__file__).parents[2] / "examples" / "payments" / "test_flow.py"
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(example)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in told.stdout, told.stdout

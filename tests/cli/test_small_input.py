"""A run over a few small files starts a JVM that compiles less; any other run does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.small_input import QUICK_COMPILER, SMALL_BYTES, SMALL_FILES, quick_options
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import Flow
from anabranch.spark.start.spark_session import DEFAULTS, JAVA_OPTIONS, settings_to_start


def _flow(source: str) -> Flow:
    return parse_flow(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) FROM {source} TIME ts;"
        "CREATE QUERY q INTO console AS SELECT k FROM s;"
    )


def test_few_small_files_need_no_second_compiler(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("1,2026-01-01\n")
    assert quick_options(_flow(f"csv '{tmp_path}'")) == QUICK_COMPILER
    assert quick_options(_flow(f"csv '{tmp_path}/day=1/a.csv'")) == QUICK_COMPILER


def test_much_to_read_is_compiled_well(tmp_path: Path) -> None:
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(SMALL_BYTES + 1)
    assert quick_options(_flow(f"csv '{tmp_path}'")) == ""


def test_so_are_many_small_files(tmp_path: Path) -> None:
    for n in range(SMALL_FILES + 1):
        (tmp_path / f"{n}.csv").touch()
    assert quick_options(_flow(f"csv '{tmp_path}'")) == ""


@pytest.mark.parametrize("source", ["rate", "csv 's3a://bucket/x'", "csv 'data/*.csv'"])
def test_so_is_a_source_whose_size_is_not_known(source: str) -> None:
    assert quick_options(_flow(source)) == ""


def test_options_of_the_jvm_are_added_to_ours_unless_others_are_set() -> None:
    settings = settings_to_start(None, {}, {}, java_options=QUICK_COMPILER)
    assert settings[JAVA_OPTIONS].startswith(DEFAULTS[JAVA_OPTIONS])
    assert settings[JAVA_OPTIONS].endswith(QUICK_COMPILER)
    assert JAVA_OPTIONS not in settings_to_start(None, {}, {JAVA_OPTIONS: "-Xss8m"}, java_options="-Xint")

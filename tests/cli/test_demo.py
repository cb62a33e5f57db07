from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from rich.console import Console

from anabranch.cli.demo.section import Sections
from anabranch.cli.demo.shift_picture import shift_picture
from tests.cli.conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_demo_runs_both_queries_checks_them_and_adapts_to_a_shift(
    anabranch: Command, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("anabranch.cli.demo.demo.start_spark", lambda *_, **__: spark)
    monkeypatch.setattr("anabranch.cli.demo.demo_more.ALERTS", 4)
    result = anabranch("demo", "--dir", tmp_path / "demo", "--bids", 200, "--batches", 5)
    assert result.exit_code == 0, result.output + result.stderr
    assert result.output.count("exactly those of DuckDB") == 3  # each query, and all of the last scene
    assert "All 6: exactly those of DuckDB" in result.output
    assert "no key is common to all three" in result.output
    assert "times the rows per second" in result.output
    assert "the results are the same" in result.output
    assert "when both are warm" in result.output
    assert "rebalanced:" not in result.output  # a line for each of the two answers, and no more
    assert "plan_changed" not in result.output
    assert (tmp_path / "demo" / "flow.sql").exists()
    picture = (tmp_path / "demo" / "shift.svg").read_text()
    assert "1: other keys are busy" in picture
    assert "2: the join order is bad" in picture
    _, _, next_steps = result.output.partition("Three commands to try next")
    assert next_steps.count("   anabranch ") == 3


def test_every_part_of_the_demo_says_at_once_what_it_does() -> None:
    out = io.StringIO()
    sections = Sections(Console(file=out, width=100))
    sections.begin("First")
    assert "1  First" in out.getvalue()
    with sections.doing("Starting Spark"):
        assert "Starting Spark …" in out.getvalue()


def test_the_picture_shows_both_runs_and_both_shifts(tmp_path: Path) -> None:
    path = tmp_path / "shift.svg"
    lines = {"as started": [10.0, 50.0, 190.0], "adapting": [10.0, 20.0, 15.0]}
    shift_picture(path, lines, {1: "1: <busy>"}, title="two")
    drawn = ElementTree.parse(path).getroot()
    assert len(drawn.findall("{*}polyline")) == 2
    texts = {t.text: t for t in drawn.findall("{*}text")}
    assert {"as started", "adapting", "1: <busy>", "two", "200 ms"} <= set(texts)
    points = drawn.findall("{*}polyline")[0].attrib["points"].split()
    last = max(float(point.split(",")[0]) for point in points)
    assert all(float(texts[name].attrib["x"]) > last for name in lines)  # names do not cover lines


def test_the_demo_does_not_write_into_a_directory_with_files(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    result = anabranch("demo", "--dir", tmp_path)
    assert result.exit_code == 2
    assert "is not empty" in result.stderr

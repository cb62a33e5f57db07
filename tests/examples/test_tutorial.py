"""The tutorial does what it says: its files, its queries, its results, in its order."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


class Reader:
    """Someone who follows the page in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.flow = ""
        self.printed: list[pd.DataFrame | int] = []

    def follow(self, kind: str, text: str) -> None:
        if kind == "python":
            exec(compile(text, "make_rooms.py", "exec"), {})
        elif kind == "sql":
            # The JVM of the tests was started in another directory, where its relative paths begin.
            self.flow += re.sub(r"'(data|out)/", rf"'{self.root}/\1/", text)
            (self.root / "rooms.sql").write_text(self.flow)
        elif kind == "console":
            for line in text.splitlines():
                self.type(line.removeprefix("$ "))

    def type(self, line: str) -> None:
        word, *arguments = line.split()
        if word == "anabranch":
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, f"{line}: {result.output}{result.stderr}"
        elif word == "rm":
            for folder in arguments[1:]:
                shutil.rmtree(folder)
        elif word == "echo":
            row, file = re.fullmatch(r'echo "(.*)" > (\S+)', line).groups()  # type: ignore[union-attr]
            Path(file).write_text(row + "\n")
        elif "-c" in arguments:
            code = re.fullmatch(r'python -c "(.*)"', line)[1]  # type: ignore[index]
            exec(code, {"print": self.printed.append})


def test_the_flows_of_the_tutorial_are_explained_without_spark(tmp_path: Path) -> None:
    (tmp_path / "rooms.sql").write_text("".join(text for kind, text in BLOCKS if kind == "sql"))
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "rooms.sql")])
    assert result.exit_code == 0, result.output
    assert "query why_cold" in result.output


@pytest.mark.spark
def test_who_follows_the_tutorial_sees_what_it_says(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anabranch.cli.run.start_spark", lambda *_, **__: spark)
    reader = Reader(tmp_path)
    for kind, text in BLOCKS:
        reader.follow(kind, text)
    cold, why, two, quarters = reader.printed
    assert isinstance(cold, pd.DataFrame)
    assert isinstance(why, pd.DataFrame)
    assert isinstance(quarters, pd.DataFrame)
    assert sorted(cold.celsius) == [16.0, 17.5]
    assert set(cold.room) == {1}
    assert why[["room", "door", "celsius"]].to_numpy().tolist() == [[1, "north", 17.5]]
    assert two == 2
    assert quarters[["room", "n", "coldest"]].to_numpy().tolist() == [
        [1, 2, 17.5],
        [2, 2, 18.9],
        [1, 1, 16.0],
        [2, 1, 15.0],
    ]

"""What is wrong with a flow file or an argument is said before Spark starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command

JOIN = "SELECT o.id FROM orders [RANGE 1 HOUR] AS o, payments [NOW] AS p WHERE o.id = p.order_id"


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark must not start")

    monkeypatch.setattr("anabranch.cli.run.start_spark", refuse)


@pytest.mark.parametrize("command", ["run", "explain"])
def test_an_unknown_file_is_named(anabranch: Command, tmp_path: Path, command: str) -> None:
    arguments = ["--checkpoint", tmp_path / "ck"] if command == "run" else []
    result = anabranch(command, tmp_path / "nowhere.sql", *arguments)
    assert result.exit_code == 2
    assert "nowhere.sql" in result.stderr
    assert not (tmp_path / "ck").exists()


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_syntax_error_is_shown_with_its_place_and_a_caret(
    anabranch: Command, flow_file: Callable[[str], Path], tmp_path: Path, command: str
) -> None:
    path = flow_file("CREATE QUERY q INTO parquet 'out' AS SELECT FROM orders [NOW] AS o;")
    arguments = ["--checkpoint", tmp_path / "ck"] if command == "run" else []
    result = anabranch(command, path, *arguments)
    assert result.exit_code == 2
    assert f"{path}: line 3, column" in result.stderr
    lines = result.stderr.splitlines()
    caret = next(i for i, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1].startswith("  CREATE QUERY q")
    assert "Traceback" not in result.stderr


def test_a_byte_order_mark_is_no_part_of_the_flow(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    path = flow_file(f"CREATE QUERY q INTO console AS {JOIN};")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    result = anabranch("explain", path)
    assert result.exit_code == 0, result.stderr


def test_an_unknown_column_gets_a_suggestion(anabranch: Command, flow_file: Callable[[str], Path]) -> None:
    result = anabranch(
        "explain", flow_file(f"CREATE QUERY q INTO console AS {JOIN.replace('o.id F', 'o.idd F')};")
    )
    assert result.exit_code == 2
    assert "unknown column 'idd'" in result.stderr
    assert "did you mean id?" in result.stderr


def test_an_unknown_setting_points_at_its_line(
    anabranch: Command, flow_file: Callable[[str], Path], tmp_path: Path
) -> None:
    path = flow_file(f"CREATE QUERY q INTO console AS {JOIN};\n  SET sitez = 4;")
    result = anabranch("run", path, "--checkpoint", tmp_path / "ck")
    assert result.exit_code == 2
    assert "line 4, column 7: unknown setting 'sitez'" in result.stderr
    assert "did you mean sites?" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--every", "soon"], "is no length of time", id="every"),
        pytest.param(["--every", "2 seconds", "--available-now"], "exclude each other", id="two triggers"),
        pytest.param(["--conf", "spark.driver.memory"], "write it as key=value", id="conf without a value"),
        pytest.param(["--conf", "spark.anabranch.sitez=3"], "did you mean sites?", id="unknown conf"),
        pytest.param(["--sites", "100000"], "choose 1 to", id="too many sites"),
        pytest.param(["--end-of-input"], "needs --available-now", id="no end of input"),
    ],
)
def test_wrong_options_are_refused(
    anabranch: Command, flow_file: Callable[[str], Path], tmp_path: Path, options: list[str], message: str
) -> None:
    path = flow_file(f"CREATE QUERY q INTO console AS {JOIN};")
    result = anabranch("run", path, "--checkpoint", tmp_path / "ck", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_flow_without_queries_is_refused(
    anabranch: Command, flow_file: Callable[[str], Path], tmp_path: Path
) -> None:
    result = anabranch("run", flow_file(""), "--checkpoint", tmp_path / "ck")
    assert result.exit_code == 2
    assert "has no query" in result.stderr


def test_a_missing_source_path_is_named_with_its_stream(
    anabranch: Command, flow_file: Callable[[str], Path], tmp_path: Path
) -> None:
    path = flow_file(f"CREATE QUERY q INTO console AS {JOIN};")
    result = anabranch("run", path, "--checkpoint", tmp_path / "ck")
    assert result.exit_code == 1
    assert "stream 'orders'" in result.stderr
    assert str(tmp_path / "orders") in result.stderr


def test_debug_shows_the_stack(anabranch: Command, tmp_path: Path) -> None:
    result = anabranch("explain", tmp_path / "nowhere.sql", "--debug")
    assert result.exception is not None
    assert "nowhere.sql" in str(result.exception)

"""Flow files and a command line for the tests of the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from anabranch.cli.app import app

STREAMS = """\
CREATE STREAM orders (id BIGINT, amount DOUBLE, ts TIMESTAMP) FROM parquet '{data}/orders' TIME ts;
CREATE STREAM payments (order_id BIGINT, paid DOUBLE, ts TIMESTAMP) FROM parquet '{data}/payments' TIME ts;
"""

Command = Callable[..., Result]


@pytest.fixture
def anabranch(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in this process; `result.output`, `result.stderr`, `result.exit_code`."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return run


@pytest.fixture
def flow_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a flow file over streams `orders` and `payments` (whose data is not there)."""

    def write(text: str) -> Path:
        path = tmp_path / "flow.sql"
        path.write_text(STREAMS.format(data=tmp_path) + text)
        return path

    return write

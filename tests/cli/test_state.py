from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from tests.cli.conftest import Command

CLICKS = Stream("clicks", (Column("user", "bigint"), Column("ts", "timestamp")), "ts", lateness_us=1_000_000)
PAIRS = (
    "SELECT a.user FROM clicks [RANGE 10 SECONDS] AS a, clicks [RANGE 10 SECONDS] AS b WHERE a.user = b.user"
)


def _clicks(*seconds: int) -> dict[str, pa.Table]:
    times = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in seconds]
    return {"clicks": pa.table({"user": [1] * len(times), "ts": pa.array(times, pa.timestamp("us", "UTC"))})}


@pytest.fixture
def filled(checkpoint: Path) -> Path:
    """A checkpoint of two batches, one late row among them."""
    run = LocalRun(
        checkpoint,
        [CLICKS],
        [bind_query("pairs", PAIRS, {"clicks": CLICKS})],
        settings=Settings(sites=2, slots=2),
    )
    run.batch(_clicks(5, 6))
    run.batch(_clicks(7, 1))
    run.close()
    return checkpoint


def test_it_shows_streams_states_and_queries(anabranch: Command, filled: Path) -> None:
    result = anabranch("state", filled)
    assert result.exit_code == 0, result.output
    for expected in (
        "batch 1,",
        "2 sites",
        "clicks",
        "2026-01-01 00:00:06",
        "pairs",
        "running",
        "chain verified",
    ):
        assert expected in result.output


def test_json_is_one_object_with_the_same_content(anabranch: Command, filled: Path) -> None:
    found = json.loads(anabranch("state", filled, "--json").output)
    assert found["newest"]["batch"] == 1
    assert found["newest"]["streams"]["clicks"]["late"] == 1
    assert found["chain"]["verified"] is True


def test_refused_rows_are_shown(anabranch: Command, filled: Path) -> None:
    result = anabranch("state", filled, "--dead-letters")
    assert result.exit_code == 0
    assert "clicks" in result.output
    assert "1 of 1 refused rows" in result.output
    rows = [
        json.loads(line)
        for line in anabranch("state", filled, "--dead-letters", "--json").output.splitlines()
    ]
    assert [row["stream"] for row in rows] == ["clicks"]


def test_as_many_refused_rows_are_shown_as_asked_for(anabranch: Command, checkpoint: Path) -> None:
    queries = [bind_query("pairs", PAIRS, {"clicks": CLICKS})]
    run = LocalRun(checkpoint, [CLICKS], queries, settings=Settings(sites=1, slots=1))
    run.batch(_clicks(59))
    run.batch(_clicks(*range(30)))
    run.close()
    as_json = ("state", checkpoint, "--dead-letters", "--json")
    assert len(anabranch(*as_json).output.splitlines()) == 30
    assert len(anabranch(*as_json, "--limit", 5).output.splitlines()) == 5
    assert "20 of 30 refused rows" in anabranch("state", checkpoint, "--dead-letters").output
    assert "5 of 30 refused rows" in anabranch("state", checkpoint, "--dead-letters", "--limit", 5).output


def test_a_damaged_manifest_is_named(anabranch: Command, filled: Path) -> None:
    newest = max((filled / "manifests").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(bytes(content))
    result = anabranch("state", filled)
    assert result.exit_code == 1
    assert newest.name in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_block_is_named(anabranch: Command, filled: Path) -> None:
    lost = next((filled / "blocks").iterdir())
    lost.unlink()
    result = anabranch("state", filled)
    assert result.exit_code == 1
    assert "damaged: 1 files are missing" in result.output
    assert lost.name in result.output


def test_a_directory_that_is_no_checkpoint_is_refused_and_left_alone(
    anabranch: Command, tmp_path: Path
) -> None:
    result = anabranch("state", tmp_path)
    assert result.exit_code == 2
    assert "is no checkpoint" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert anabranch("state", tmp_path / "nowhere").exit_code == 2


def test_a_fresh_checkpoint_has_no_batch(anabranch: Command, checkpoint: Path) -> None:
    LocalRun(checkpoint, [CLICKS], [bind_query("pairs", PAIRS, {"clicks": CLICKS})]).close()
    assert "no batch has been committed yet" in anabranch("state", checkpoint).output

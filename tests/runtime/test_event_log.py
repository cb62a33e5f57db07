from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.runtime import event_log
from anabranch.runtime.event_log import EVENT_LOG, OLDER_LOG, log_events


def batches_in(log: Path) -> list[int]:
    return [json.loads(line)["at"] for line in log.read_text().splitlines()]


def test_a_log_that_has_grown_is_begun_anew_and_the_one_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_BYTES", 1000)
    for batch in range(100):
        log_events(tmp_path, [AdaptEvent(batch, EventKind.MEMORY_PLANNED, "x" * 50)])
    assert {path.name for path in tmp_path.iterdir()} == {EVENT_LOG, OLDER_LOG}
    older, newest = batches_in(tmp_path / OLDER_LOG), batches_in(tmp_path / EVENT_LOG)
    assert [*older, *newest] == list(range(older[0], 100))
    assert 1000 <= (tmp_path / OLDER_LOG).stat().st_size < 1200
    assert (tmp_path / EVENT_LOG).stat().st_size < 1200


def test_a_boundary_without_events_makes_no_log(tmp_path: Path) -> None:
    log_events(tmp_path, [])
    assert not list(tmp_path.iterdir())

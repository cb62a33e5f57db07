"""Turns of tests: new seeds each time, one entry per kind, an end at the first failure."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from tests.support.ledger_run import KINDS, REAL_KILLS, Kind, take_turns, write_down

FAULTS = Kind("simulated_faults", 1000, 100, "faults {seed}", count=lambda _: 100)
SESSIONS = Kind("generated_queries", 1, 1, "sessions {seed}", count=int)


def test_kinds_take_turns_with_seeds_never_used_before() -> None:
    seeds = {"generated_queries": 7}
    turns, lines = count(), list[str]()

    def run(line: str) -> tuple[bool, str]:
        lines.append(" ".join(line.split()[-2:]))
        return True, "290"

    done = take_turns([FAULTS, SESSIONS], seeds, lambda: next(turns) < 3, run)
    assert lines == ["faults 1000", "sessions 7", "faults 1100"]
    assert seeds == {"simulated_faults": 1200, "generated_queries": 8}
    assert [d.count for d in done.values()] == [200, 290]


def test_the_first_failure_ends_it_and_the_next_run_begins_with_it(tmp_path: Path) -> None:
    seeds: dict[str, int] = {}
    outcomes = iter([(True, ""), (False, "")])
    done = take_turns([FAULTS], seeds, lambda: True, lambda _: next(outcomes))
    assert seeds == {"simulated_faults": 1100}
    write_down(tmp_path / "ledger.json", done, "the command")
    (entry,) = json.loads((tmp_path / "ledger.json").read_text())
    assert (entry["count"], entry["failures"]) == (100, 1)
    assert entry["note"].startswith("seeds 1000-1099; failed: ")
    assert entry["note"].endswith("faults 1100")


def test_what_was_not_run_gets_no_entry(tmp_path: Path) -> None:
    write_down(tmp_path / "ledger.json", take_turns(KINDS, {}, lambda: False, lambda _: (True, "")), "x")
    assert not (tmp_path / "ledger.json").exists()


def test_every_kind_names_tests_that_exist_and_begins_beyond_those_of_every_change() -> None:
    for kind in (*KINDS, REAL_KILLS):
        paths = [word for word in kind.line(5).split() if word.endswith(".py")]
        assert paths
        assert all(Path(path).is_file() for path in paths)
        assert "{" not in kind.line(5)
    assert {k.name: k.first_seed for k in KINDS}["simulated_faults"] >= 1_000

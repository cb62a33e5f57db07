"""What a checkpoint tells of plans: candidates, prices, decisions and what came of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.adapt.boundary.boundary_state import KEPT_EVENTS
from anabranch.adapt.events import Event, EventKind
from anabranch.engine.json_log import EVENT_LOG, JsonLog
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.reproduce.cape.cape_streams import Arrivals, Load, cape_query, cape_streams, cape_text
from anabranch.state import PosixStorage
from anabranch.workloads.chain import STREAMS as CHAIN_STREAMS
from anabranch.workloads.chain import Chain
from tests.cli.conftest import Command

INTERVAL_US = 100_000
FLIP, BATCHES = 8, 32
LOADS = {
    0: Load(dict.fromkeys("abcd", 3000.0), {"x": 20_000, "y": 1500, "z": 150}),
    FLIP: Load(dict.fromkeys("abcd", 3000.0), {"x": 150, "y": 1500, "z": 20_000}),
}
"""First a row of a finds few partners in b and one of c many in d; then the other way round."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that has changed its plan, and has seen what came of it."""
    root = tmp_path_factory.mktemp("why") / "checkpoint"
    streams = cape_streams()
    query = cape_query(streams, cape_text(window_us=6 * INTERVAL_US))
    settings = Settings(sites=1, slots=1, migration="auto")
    run = LocalRun(root, streams, [query], settings=settings, listeners=[JsonLog(PosixStorage(root))])
    for tables in Arrivals(LOADS, INTERVAL_US).batches(BATCHES):
        run.batch(tables)
    run.close()
    return root


def test_why_shows_the_candidates_with_what_each_is_predicted_to_take(
    anabranch: Command, checkpoint: Path
) -> None:
    result = anabranch("explain", checkpoint, "--why")
    assert result.exit_code == 0, result.output
    assert f"query q: plans as last seen, after batch {BATCHES - 1}" in result.output
    assert "observed," in result.output
    assert "runs at 0" in result.output
    assert "[a b c d, b " in result.output  # the plan without intermediate states is a candidate, too
    assert "plan_changed" in result.output


def test_candidates_are_told_with_the_cheapest_first(anabranch: Command, checkpoint: Path) -> None:
    first, *_ = anabranch("explain", checkpoint, "--why", "--json").output.splitlines()
    plans = json.loads(first)
    (site,) = plans["sites"]
    assert (plans["kind"], plans["query"], site["site"]) == ("plans", "q", 0)
    prices = list(site["predicted"].values())
    assert prices == sorted(prices)
    assert len(prices) >= 5
    assert site["plan"] in site["predicted"]
    assert site["predicted"][site["plan"]] < site["predicted"]["(((a b) c) d)"]
    assert site["observed"] > 0


def test_the_benefit_of_a_change_is_told_some_batches_later(anabranch: Command, checkpoint: Path) -> None:
    told = [json.loads(line) for line in (checkpoint / EVENT_LOG).read_text().splitlines()]
    change = next(event for event in told if event["kind"] == "plan_changed")
    benefit = next(event for event in told if event["kind"] == "benefit_observed")
    assert benefit["batch"] > change["batch"]
    assert (benefit["old"], benefit["new"]) == (change["old"], change["new"])
    assert 0 < benefit["expected"] < 1
    assert benefit["observed"] < 1
    assert "was to save" in anabranch("explain", checkpoint, "--why").output


def test_a_query_is_explained_with_the_plans_of_its_checkpoint(
    anabranch: Command, checkpoint: Path, tmp_path: Path
) -> None:
    columns = {"a": "x BIGINT", "b": "x BIGINT, y BIGINT", "c": "y BIGINT, z BIGINT", "d": "z BIGINT"}
    flow = tmp_path / "flow.sql"
    flow.write_text(
        "".join(
            f"CREATE STREAM {name} (id BIGINT, {keys}, ts TIMESTAMP) FROM parquet '{name}' TIME ts;\n"
            for name, keys in columns.items()
        )
        + f"CREATE QUERY q INTO console AS {cape_text(window_us=6 * INTERVAL_US)};\n"
    )
    alone = anabranch("explain", flow)
    assert "plans as last seen" not in alone.output
    result = anabranch("explain", flow, "--checkpoint", checkpoint)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(alone.output.rstrip())
    assert "plans as last seen" in result.output


def test_a_folder_without_a_batch_is_refused(anabranch: Command, tmp_path: Path) -> None:
    result = anabranch("explain", tmp_path, "--why")
    assert result.exit_code == 2
    assert "holds no committed batch" in result.stderr


def test_decisions_for_one_query_are_those_that_name_it_or_all(anabranch: Command, checkpoint: Path) -> None:
    assert "plan_changed" in anabranch("explain", checkpoint, "--why", "--query", "Q").output
    wrong = anabranch("explain", checkpoint, "--why", "--query", "p")
    assert wrong.exit_code == 2
    assert "choose from q" in wrong.stderr


def test_why_lists_all_decisions_also_those_that_the_manifest_has_let_go_of(
    anabranch: Command, checkpoint: Path
) -> None:
    log = JsonLog(PosixStorage(checkpoint))
    kept = (checkpoint / EVENT_LOG).read_text()
    for number in range(KEPT_EVENTS + 50):
        log.on_event(Event(number, EventKind.MOVE_REFUSED, f"partition {number}"))
    log.on_event(Event(0, EventKind.REPLAYED, "nobody decided that"))
    told = anabranch("explain", checkpoint, "--why").output
    (checkpoint / EVENT_LOG).write_text(kept)
    assert told.count("move_refused") == KEPT_EVENTS + 50
    assert told.count("plan_changed") == kept.count("plan_changed"), "each of them once"
    assert "nobody decided that" not in told


def test_decisions_that_the_log_has_lost_are_those_of_the_manifest(
    anabranch: Command, checkpoint: Path
) -> None:
    whole = anabranch("explain", checkpoint, "--why").output
    kept = (checkpoint / EVENT_LOG).read_text()
    (checkpoint / EVENT_LOG).unlink()
    without = anabranch("explain", checkpoint, "--why").output
    (checkpoint / EVENT_LOG).write_text(kept)
    assert without == whole


def test_the_ways_of_a_join_without_a_common_key_are_told_with_what_each_takes(
    anabranch: Command, tmp_path: Path
) -> None:
    chain = Chain(2_000, 200)
    run = LocalRun(tmp_path / "ck", CHAIN_STREAMS, [chain.query()], settings=Settings(sites=3, slots=2))
    for tables in chain.batches(3, lambda _: (0.1, 4.0)):
        run.batch(tables)
    (told,) = run.record.progress[-1].orderings
    run.close()
    assert told.costs_ms.keys() == {"one site", "eddy", "fixed order"}
    output = anabranch("explain", tmp_path / "ck", "--why").output
    assert "query chain: ways to run as last seen, after batch 2" in output
    assert any(line.split()[0] == "eddy" and line.endswith("runs") for line in output.splitlines() if line)

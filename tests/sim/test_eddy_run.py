"""The simulated eddy: nothing is lost, queues are bounded, and the papers' claims hold on few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.reproduce import EXPERIMENTS, run_experiment
from anabranch.sim.eddy_machines import steady
from anabranch.sim.eddy_run import Setup, run_eddy

SIMULATED = ("5-8", "5-9", "5-10", "5-11", "5-13", "5-14")
IN_THE_ENGINE = ("5-5", "5-6", "5-7", "5-12")


def one(_: int) -> float:
    return 1.0


def test_every_row_passes_both_stations() -> None:
    setup = Setup({"R": lambda n: 0.5, "T": one}, rows=4_000, machine_s=dict.fromkeys("RT", steady(0.001)))
    outcomes = [run_eddy(setup, always=always) for always in (None, "R", "T")]
    assert all(outcome.results == pytest.approx(2_000, rel=0.15) for outcome in outcomes)
    assert sum(outcomes[0].first.values()) == pytest.approx(1.0)


def test_machines_that_wait_for_each_other_never_stand_still() -> None:
    setup = Setup({"R": lambda n: 3.0, "T": lambda n: 3.0}, rows=3_000)
    assert run_eddy(setup).results == pytest.approx(27_000, rel=0.15)


def test_the_same_seed_gives_the_same_run() -> None:
    setup = Setup({"R": lambda n: 0.3, "T": lambda n: 0.6}, rows=2_000)
    assert run_eddy(setup) == run_eddy(setup)


@pytest.mark.parametrize(
    "name", [*SIMULATED, *(pytest.param(name, marks=pytest.mark.slow) for name in IN_THE_ENGINE)]
)
def test_the_claims_of_figures_5_5_to_5_14_hold_on_few_rows(name: str, tmp_path: Path) -> None:
    assert run_experiment(f"cosmos-fig{name}", tmp_path, quick=True).holds


def test_every_figure_of_the_chapter_is_there() -> None:
    assert {n for n in EXPERIMENTS if n.startswith("cosmos-fig5")} == {
        f"cosmos-fig{name}" for name in (*SIMULATED, *IN_THE_ENGINE)
    }

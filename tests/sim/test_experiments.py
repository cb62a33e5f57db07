"""The papers' claims, on smaller clusters; the full runs are `anabranch reproduce`."""

from __future__ import annotations

import pytest

from anabranch.reproduce import EXPERIMENTS, ClaimFailed, run_experiment
from anabranch.reproduce.flux.flux_setups import seeds
from anabranch.reproduce.report.result import Check, Result, Spread, Table, at_least, at_most, between

FAST = ("flux-fig3", "flux-fig7")
SLOW = ("flux-fig8", "flux-fig9", "flux-fig11", "flux-fig12", "flux-fig13", "flux-fig14", "flux-fig15")


NOT_REPRODUCED = {
    "flux-fig9": "about half of static",
    "flux-fig15": "heavy: hybrid ÷ load policy",
}
"""What docs/experiments/flux.md says does not hold. When it does one day, this test asks for the news."""


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_the_claim_holds_on_a_small_cluster_or_is_said_not_to(name, tmp_path):
    if name in NOT_REPRODUCED:
        with pytest.raises(ClaimFailed, match=NOT_REPRODUCED[name]) as failed:
            run_experiment(name, tmp_path, quick=True)
        result = failed.value.result
    else:
        result = run_experiment(name, tmp_path, quick=True)
        assert result.holds
    assert (tmp_path / f"{name}.md").read_text(encoding="utf-8").startswith(f"## {name}")
    assert result.figure is None or result.figure.stat().st_size > 1000


def test_every_simulated_figure_of_flux_is_there():
    assert {n for n in EXPERIMENTS if n.startswith("flux-fig")} == {*FAST, *SLOW}


def test_a_claim_that_does_not_hold_is_an_error(tmp_path, monkeypatch):
    failed = Result("x", "x", Table(("a",), ((1,),)), (Check("one is two", False, "1 ≠ 2"),))
    monkeypatch.setitem(EXPERIMENTS, "x", lambda out, quick=False: failed)
    with pytest.raises(ClaimFailed, match="one is two"):
        run_experiment("x", tmp_path)


def test_the_median_of_the_seeds_decides_and_all_of_them_are_shown():
    check = at_least("x", Spread.of([0.9, 2.0, 0.8]), 1.0)
    assert not check.holds
    assert check.detail == "0.9 (by seed 0.9, 2, 0.8), at least 1"
    assert at_most("x", Spread.of([0.9, 2.0, 0.8]), 1.0).holds
    assert between("x", Spread.of([0.9, 2.0, 0.8]), 0.9, 1.0).holds


def test_a_full_run_has_three_seeds_at_least():
    assert len(set(seeds(quick=False))) >= 3


def test_an_unknown_experiment_names_the_known_ones(tmp_path):
    with pytest.raises(Exception, match="flux-fig7"):
        run_experiment("flux-fig99", tmp_path)

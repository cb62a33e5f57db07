"""The papers' claims, on smaller clusters; the full runs are `anabranch reproduce`."""

from __future__ import annotations

import pytest

from anabranch.reproduce import EXPERIMENTS, ClaimFailed, run_experiment
from anabranch.sim.experiments.result import Check, Result, Table

FAST = ("flux-fig3", "flux-fig7")
SLOW = ("flux-fig8", "flux-fig9", "flux-fig11", "flux-fig12", "flux-fig13", "flux-fig14", "flux-fig15")


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_the_claim_holds_on_a_small_cluster(name, tmp_path):
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


def test_an_unknown_experiment_names_the_known_ones(tmp_path):
    with pytest.raises(Exception, match="flux-fig7"):
        run_experiment("flux-fig99", tmp_path)

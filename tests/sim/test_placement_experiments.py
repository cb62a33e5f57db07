"""The claims of COSMOS, chapter 6, on smaller clusters; the full runs are `anabranch reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.reproduce import EXPERIMENTS, run_experiment

FAST = ("cosmos-fig6-9",)
SLOW = (
    "cosmos-fig6-5",
    "cosmos-fig6-6",
    "cosmos-fig6-7",
    "cosmos-fig6-8",
    "cosmos-fig6-10",
    "cosmos-fig6-11",
    "cosmos-share",
)


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_the_claim_holds_on_a_small_cluster(name: str, tmp_path: Path) -> None:
    assert run_experiment(name, tmp_path, quick=True).holds


def test_every_figure_of_chapter_6_is_there() -> None:
    assert {n for n in EXPERIMENTS if n.startswith(("cosmos-fig6", "cosmos-share"))} == {*FAST, *SLOW}

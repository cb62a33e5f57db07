"""The papers' experiments by name: run one, print its table, draw its picture, check its claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anabranch.errors import AnabranchError, ConfigError
from anabranch.reproduce.cape.cape_exact import cape_exact
from anabranch.reproduce.cape.cape_fig9 import cape_fig9
from anabranch.reproduce.cape.cape_fig10 import cape_fig10, cape_fig11
from anabranch.reproduce.cape.cape_fig12 import cape_fig12
from anabranch.reproduce.cape.cape_fig13 import cape_fig13, cape_fig14, cape_fig15, cape_fig16
from anabranch.reproduce.cape.cape_overhead import cape_overhead
from anabranch.reproduce.cape.cape_reorder import cape_reorder
from anabranch.reproduce.cosmos.cosmos_fig5_5 import cosmos_fig5_5, cosmos_fig5_6, cosmos_fig5_7
from anabranch.reproduce.cosmos.cosmos_fig5_8 import cosmos_fig5_8
from anabranch.reproduce.cosmos.cosmos_fig5_9 import cosmos_fig5_9, cosmos_fig5_10
from anabranch.reproduce.cosmos.cosmos_fig5_11 import cosmos_fig5_11
from anabranch.reproduce.cosmos.cosmos_fig5_12 import cosmos_fig5_12
from anabranch.reproduce.cosmos.cosmos_fig5_13 import cosmos_fig5_13, cosmos_fig5_14
from anabranch.reproduce.cosmos.cosmos_fig6_5 import cosmos_fig6_5
from anabranch.reproduce.cosmos.cosmos_fig6_6 import cosmos_fig6_6
from anabranch.reproduce.cosmos.cosmos_fig6_7 import cosmos_fig6_7
from anabranch.reproduce.cosmos.cosmos_fig6_8 import cosmos_fig6_8, cosmos_fig6_9
from anabranch.reproduce.cosmos.cosmos_fig6_10 import cosmos_fig6_10
from anabranch.reproduce.cosmos.cosmos_fig6_11 import cosmos_fig6_11
from anabranch.reproduce.cosmos.cosmos_share import cosmos_share
from anabranch.reproduce.dcape.dcape_fig7 import dcape_fig7, dcape_fig8
from anabranch.reproduce.dcape.dcape_grid import (
    dcape_fig9,
    dcape_fig10,
    dcape_fig11,
    dcape_fig12,
    dcape_fig13,
)
from anabranch.reproduce.diffusion.diffusion_decisions import diffusion_fig9, diffusion_fig10
from anabranch.reproduce.diffusion.diffusion_fig7 import diffusion_fig7, diffusion_fig8
from anabranch.reproduce.diffusion.diffusion_hotkey import diffusion_hotkey
from anabranch.reproduce.diffusion.diffusion_sim import (
    diffusion_fig11,
    diffusion_fig12,
    diffusion_fig13,
    diffusion_fig14,
    diffusion_fig15,
    diffusion_fig16,
)
from anabranch.reproduce.flux.flux_fig3 import flux_fig3
from anabranch.reproduce.flux.flux_fig7 import flux_fig7, flux_fig8
from anabranch.reproduce.flux.flux_fig9 import flux_fig9
from anabranch.reproduce.flux.flux_fig11 import flux_fig11, flux_fig12, flux_fig13, flux_fig14
from anabranch.reproduce.flux.flux_fig15 import flux_fig15
from anabranch.reproduce.flux.flux_live import flux_live
from anabranch.reproduce.flux.flux_memory import flux_memory, flux_memory_groups
from anabranch.reproduce.report.result import Check, Result, Table

__all__ = ["EXPERIMENTS", "Check", "ClaimFailed", "Experiment", "Result", "Table", "run_experiment"]

Experiment = Callable[..., Result]
"""Takes the folder for pictures, and `quick=True` for a smaller run of the same claim."""

EXPERIMENTS: dict[str, Experiment] = {
    "flux-fig3": flux_fig3,
    "flux-fig7": flux_fig7,
    "flux-fig8": flux_fig8,
    "flux-fig9": flux_fig9,
    "flux-fig11": flux_fig11,
    "flux-fig12": flux_fig12,
    "flux-fig13": flux_fig13,
    "flux-fig14": flux_fig14,
    "flux-fig15": flux_fig15,
    "flux-live": flux_live,
    "flux-memory": flux_memory,
    "flux-memory-groups": flux_memory_groups,
    "dcape-fig7": dcape_fig7,
    "dcape-fig8": dcape_fig8,
    "dcape-fig9": dcape_fig9,
    "dcape-fig10": dcape_fig10,
    "dcape-fig11": dcape_fig11,
    "dcape-fig12": dcape_fig12,
    "dcape-fig13": dcape_fig13,
    "cape-fig9": cape_fig9,
    "cape-fig10": cape_fig10,
    "cape-fig11": cape_fig11,
    "cape-fig12": cape_fig12,
    "cape-fig13": cape_fig13,
    "cape-fig14": cape_fig14,
    "cape-fig15": cape_fig15,
    "cape-fig16": cape_fig16,
    "cape-exact": cape_exact,
    "cape-reorder": cape_reorder,
    "cape-overhead": cape_overhead,
    "cosmos-fig5-5": cosmos_fig5_5,
    "cosmos-fig5-6": cosmos_fig5_6,
    "cosmos-fig5-7": cosmos_fig5_7,
    "cosmos-fig5-8": cosmos_fig5_8,
    "cosmos-fig5-9": cosmos_fig5_9,
    "cosmos-fig5-10": cosmos_fig5_10,
    "cosmos-fig5-11": cosmos_fig5_11,
    "cosmos-fig5-12": cosmos_fig5_12,
    "cosmos-fig5-13": cosmos_fig5_13,
    "cosmos-fig5-14": cosmos_fig5_14,
    "diffusion-fig7": diffusion_fig7,
    "diffusion-fig8": diffusion_fig8,
    "diffusion-fig9": diffusion_fig9,
    "diffusion-fig10": diffusion_fig10,
    "diffusion-fig11": diffusion_fig11,
    "diffusion-fig12": diffusion_fig12,
    "diffusion-fig13": diffusion_fig13,
    "diffusion-fig14": diffusion_fig14,
    "diffusion-fig15": diffusion_fig15,
    "diffusion-fig16": diffusion_fig16,
    "diffusion-hotkey": diffusion_hotkey,
    "cosmos-fig6-5": cosmos_fig6_5,
    "cosmos-fig6-6": cosmos_fig6_6,
    "cosmos-fig6-7": cosmos_fig6_7,
    "cosmos-fig6-8": cosmos_fig6_8,
    "cosmos-fig6-9": cosmos_fig6_9,
    "cosmos-fig6-10": cosmos_fig6_10,
    "cosmos-fig6-11": cosmos_fig6_11,
    "cosmos-share": cosmos_share,
}


class ClaimFailed(AnabranchError):
    """An experiment ran, and its claim does not hold."""

    def __init__(self, result: Result) -> None:
        failed = "; ".join(str(c) for c in result.checks if not c.holds)
        super().__init__(f"{result.name} does not hold: {failed}")
        self.result = result


def run_experiment(name: str, out: Path, *, quick: bool = False) -> Result:
    """Run an experiment; its text goes to `out/NAME.md`, its picture beside it.

    Raises
    ------
    ClaimFailed
        When a check fails; the result is in the exception, the files are written.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    out.mkdir(parents=True, exist_ok=True)
    result = EXPERIMENTS[name](out, quick=quick)
    (out / f"{name}.md").write_text(result.to_text(), encoding="utf-8")
    if not result.holds:
        raise ClaimFailed(result)
    return result

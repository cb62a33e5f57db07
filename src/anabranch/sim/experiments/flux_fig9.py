"""Flux, figure 9: a policy that overreacts, and how δ_min calms it.

One partition has a quarter of all rows. Where it sits does not matter much; that it keeps moving does, for
while it moves, everything waits for it. With short rounds, some idle site always *looks* less busy than
the small partitions beside the big one, so the big one moves. Partitions have 80 KB here instead of
800 KB: at 800 KB our simulated moves take so long that even their own length calms the policy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.adapt.controller import Controller
from anabranch.sim.cluster import Cluster, busy_process
from anabranch.sim.experiments.flux_setups import (
    LOAD_PARTITIONS,
    SITES,
    loaded_sites,
    our_load,
    published_load,
    run,
    tuned_load,
)
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Cell, Check, Result, Table, at_least, at_most
from anabranch.sim.pipeline import Stage
from anabranch.sim.workload import self_similar

ROUNDS_MS = (10, 50, 100, 250, 500)
FILLED_S = 2.0
"""The buffers are full by then, and the big partition is what everything waits for."""


def flux_fig9(out: Path, *, quick: bool = False) -> Result:
    """80/20 skew, with and without external load, by the shortest collection phase."""
    until, rounds = (8.0, (10, 500)) if quick else (20.0, ROUNDS_MS)
    series: dict[str, list[float]] = {}
    fixed: dict[str, tuple[float, float, float]] = {}
    for label, stage in _stages().items():
        series[label] = [_mean(stage, published_load(minimum_round=ms / 1000), until) for ms in rounds]
        fixed[label] = (
            _mean(stage, None, until),
            _mean(stage, tuned_load(), until),
            _mean(stage, our_load(), until),
        )
    chart = Chart(
        "δ_min (ms)",
        "rows/s",
        rounds,
        {f"load policy, {label}": values for label, values in series.items()},
        {f"static, {label}": fixed[label][0] for label in fixed}
        | {"self-tuned, unloaded": fixed["unloaded"][1]},
        log_x=True,
    )
    columns = (
        "load",
        "static",
        *(f"δ_min {ms} ms" for ms in rounds),
        "self-tuned from 10 ms",
        "our load policy",
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (label, fixed[label][0], *series[label], *fixed[label][1:]) for label in series
    )
    return Result(
        "flux-fig9",
        "80/20 skew",
        Table(columns, rows),
        _checks(series, fixed),
        draw(chart, out / "flux-fig9.png"),
    )


def _stages() -> dict[str, Stage]:
    shares = self_similar(SITES * LOAD_PARTITIONS, groups=16384, seed=1)
    biggest = int(np.argmax(shares)) // LOAD_PARTITIONS
    others = [s for s in loaded_sites(9) if s != biggest][:7]
    return {
        label: Stage(Cluster(disturbances=load), shares, state_bytes=80_000, spills=True, tick_s=0.0025)
        for label, load in {"unloaded": (), "8 sites loaded": busy_process([biggest, *others])}.items()
    }


def _mean(stage: Stage, controller: Controller | None, until: float) -> float:
    return run(stage, controller, until).mean_throughput(FILLED_S)


def _checks(
    series: dict[str, list[float]], fixed: dict[str, tuple[float, float, float]]
) -> tuple[Check, ...]:
    calm, loaded = "unloaded", "8 sites loaded"
    static, tuned, ours = fixed[calm]
    return (
        # The paper has about half. Here the partition that matters moves in every second round or so.
        at_most("the smallest δ_min thrashes and loses to static: ÷ static", series[calm][0] / static, 0.9),
        at_least("the largest beats static: ÷ static", series[calm][-1] / static, 1.02),
        at_least("with external load, too: ÷ static unloaded", series[loaded][-1] / static, 1.0),
        at_least("self-tuning from the smallest δ_min beats static", tuned / static, 1.0),
        at_least("our policy beats static", ours / static, 1.02),
    )

"""diffusion-hotkey: half of the rows on one key, eight sites, whole and spread, on the engine."""

from __future__ import annotations

from pathlib import Path

from anabranch.engine.settings import Settings
from anabranch.reproduce.diffusion.diffusion_run import DiffusionTrace, run_diffusion
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import compare_rows
from anabranch.workloads.hot_key import STREAMS, HotKeyStreams, hot_key_query

SITES = 8
WARM_UP = 5
"""Batches that fill the windows and find the key."""


def diffusion_hotkey(out: Path, *, quick: bool = False) -> Result:
    """Joins of two and of three streams."""
    steady = 4 if quick else 10
    sizes = {2: 3_000, 3: 500} if quick else {2: 5_000, 3: 700}
    shown: list[tuple[int, str, float, int]] = []
    checks: list[Check] = []
    lines: dict[str, list[float]] = {}
    for references, rows in sizes.items():
        whole = _run(references, rows, WARM_UP + steady, hot_keys="off")
        spread = _run(references, rows, WARM_UP + steady, hot_keys="auto")
        assert whole.results is not None
        assert spread.results is not None
        gain = whole.path_s(WARM_UP) / spread.path_s(WARM_UP)
        differing = 0 if compare_rows(spread.results, whole.results).empty else 1
        shown += [
            (references, "hash", whole.path_s(WARM_UP), whole.results.num_rows),
            (references, "split", spread.path_s(WARM_UP), spread.results.num_rows),
        ]
        checks += [
            at_least(f"critical path, {references} streams: hash ÷ split", gain, 3.0),
            at_most(f"results that differ, {references} streams", float(differing), 0.0),
        ]
        lines |= {f"hash, {references}": whole.critical_s, f"split, {references}": spread.critical_s}
    chart = Chart("batch", "seconds of the busiest site", list(range(WARM_UP + steady)), lines, {})
    return Result(
        "diffusion-hotkey",
        f"half of the rows on one key, {SITES} sites",
        Table(("streams", "routing", "critical path (s)", "results"), tuple(shown)),
        tuple(checks),
        draw(chart, out / "diffusion-hotkey.png"),
    )


def _run(references: int, rows: int, batches: int, *, hot_keys: str) -> DiffusionTrace:
    settings = Settings(
        sites=SITES, slots=1, hot_keys=hot_keys, migration="off", rebalance="off", quota_pairs=1 << 40
    )
    streams = HotKeyStreams(rows, references)
    return run_diffusion(STREAMS[:references], hot_key_query(references), streams.batches(batches), settings)

"""diffusion-hotkey: half of the rows on one key or group, eight sites, whole and spread, on the engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from anabranch.engine.settings import Settings
from anabranch.reproduce.diffusion.diffusion_run import DiffusionTrace, run_diffusion
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import compare_rows
from anabranch.workloads.hot_key import GROUPS, STREAMS, HotKeyStreams, hot_group_query, hot_key_query

SITES = 8
WARM_UP = 5
"""Batches that fill the windows and find the key."""
GROUPED_ROWS = {"windows": 1_000_000, "each row": 500_000}
"""Per batch: a group takes little time, so that there must be many rows for it to matter."""
QUICK_GAINS = {"groups, each row": 2.0}
"""What is asked of quick runs beside 3 times. A result that looks at rows needs prefix sums and the like of
the new block, and every site makes them for itself: with half of the rows that is more of the work.
"""
OTHER_GROUPS = 1_000
Load = Callable[[int, str], DiffusionTrace]


def diffusion_hotkey(out: Path, *, quick: bool = False) -> Result:
    """Joins of two and of three streams, and aggregates whose one group has half of the rows."""
    steady = 4 if quick else 10
    shown: list[tuple[str, str, float, int]] = []
    checks: list[Check] = []
    lines: dict[str, list[float]] = {}
    for name, load in loads(quick=quick).items():
        whole = load(WARM_UP + steady, "off")
        spread = load(WARM_UP + steady, "auto")
        assert whole.results is not None
        assert spread.results is not None
        asked = QUICK_GAINS.get(name, 3.0) if quick else 3.0
        gain = whole.path_s(WARM_UP) / spread.path_s(WARM_UP)
        differing = 0 if compare_rows(spread.results, whole.results).empty else 1
        shown += [
            (name, "hash", whole.path_s(WARM_UP), whole.results.num_rows),
            (name, "split", spread.path_s(WARM_UP), spread.results.num_rows),
        ]
        checks += [
            at_least(f"critical path, {name}: hash ÷ split", gain, asked),
            at_most(f"results that differ, {name}", float(differing), 0.0),
        ]
        lines |= {f"hash, {name}": whole.critical_s, f"split, {name}": spread.critical_s}
    chart = Chart("batch", "seconds of the busiest site", list(range(WARM_UP + steady)), lines, {})
    return Result(
        "diffusion-hotkey",
        f"half of the rows on one key, {SITES} sites",
        Table(("load", "routing", "critical path (s)", "results"), tuple(shown)),
        tuple(checks),
        draw(chart, out / "diffusion-hotkey.png"),
    )


def loads(*, quick: bool) -> dict[str, Load]:
    """Each runs so many batches with hot keys `auto` or `off`."""
    sizes = {2: 3_000, 3: 500} if quick else {2: 5_000, 3: 700}
    found: dict[str, Load] = {f"{n} streams": partial(_join, n, size) for n, size in sizes.items()}
    return found | {
        f"groups, {kind}": partial(_groups, kind, GROUPED_ROWS[kind] // (2 if quick else 1))
        for kind in GROUPS
    }


def _join(references: int, rows: int, batches: int, hot_keys: str) -> DiffusionTrace:
    streams = HotKeyStreams(rows, references)
    query = hot_key_query(references)
    return run_diffusion(STREAMS[:references], query, streams.batches(batches), _settings(1, hot_keys))


def _groups(kind: str, rows: int, batches: int, hot_keys: str) -> DiffusionTrace:
    """Every site has caches of its own: answers that are spread are read from blocks of all sites."""
    streams, query = HotKeyStreams(rows, 1, keys=OTHER_GROUPS), hot_group_query(kind)
    settings = _settings(SITES, hot_keys)
    return run_diffusion(STREAMS[:1], query, streams.batches(batches), settings, machines=True)


def _settings(slots: int, hot_keys: str) -> Settings:
    """Rows do not wait: a site with too many would put them off into batches that are not counted."""
    return Settings(
        sites=SITES,
        slots=slots,
        hot_keys=hot_keys,
        migration="off",
        rebalance="off",
        skew_buffer_rows=0,
        quota_pairs=1 << 40,
    )

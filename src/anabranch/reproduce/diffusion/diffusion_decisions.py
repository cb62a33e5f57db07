"""diffusion-fig9 and -fig10: the time of a routing decision, aligned and coordinated, by CPU."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from anabranch.adapt.routing.coordinated_state import CoordinatedState, informed
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, Member
from anabranch.exchange.coordinated_table import Unit, unit_number
from anabranch.plan.inputs import layout_of
from anabranch.reproduce.diffusion.video_streams import BATCH_US, NAMES, video_query
from anabranch.reproduce.report.result import Result, Table, at_most

SITES = 6
DECISIONS = 200
"""Over which the median is taken."""
UNIT_ROWS = 1_500
"""Rows of a segment and batch: half of ten seconds with 300 a second."""
MATCHING = 1e-4
"""Share of pairs that match."""


def diffusion_fig9(out: Path, *, quick: bool = False) -> Result:
    """Time of a routing decision, W = 60 s."""
    return _decisions("diffusion-fig9", window_s=60)


def diffusion_fig10(out: Path, *, quick: bool = False) -> Result:
    """Time of a routing decision, W = 120 s."""
    return _decisions("diffusion-fig10", window_s=120)


def _decisions(name: str, *, window_s: int) -> Result:
    segment_us, row_us = _aligned(window_s)
    path_us, batch_us = _coordinated(window_s)
    shown = (
        ("aligned: a segment", segment_us),
        ("aligned: a slave row placed", row_us),
        ("coordinated: a segment of a batch", path_us),
        ("coordinated: all of a batch on the driver", batch_us),
    )
    return Result(
        name,
        f"time of a routing decision, W = {window_s} s, {SITES} sites, three streams",
        Table(("what", "µs"), shown),
        (
            at_most("µs per segment, aligned", segment_us, 100.0),
            at_most("µs per segment, coordinated", path_us, 100.0),
            at_most("µs per batch, coordinated", batch_us, 5_000.0),
        ),
        None,
    )


def _aligned(window_s: int) -> tuple[float, float]:
    """Deciding another run of segments, and placing a segment's rows with it."""
    window_us, length_us = window_s * 1_000_000, 2_000_000
    members = tuple(Member(alias, i, window_us) for i, alias in enumerate(NAMES))
    table = AlignedTable.single("a", length_us, range(SITES))
    deciding, placing = [], []
    draw_from = np.random.default_rng(3)
    for number in range(1, DECISIONS + 1):
        cycle = tuple(draw_from.integers(0, PARTITIONS, SITES).tolist())
        began = time.process_time()
        table = table.continued(number * length_us, length=length_us, cycle=cycle)
        table = table.without_before({"a": number * length_us - 2 * window_us})
        deciding.append(time.process_time() - began)
        times = number * length_us + np.sort(draw_from.integers(0, length_us, 600))
        began = time.process_time()
        AlignedRouter(members, table).copies(members[1], times)
        placing.append((time.process_time() - began) / len(times))
    return median(deciding) * 1e6, median(placing) * 1e6


def _coordinated(window_s: int) -> tuple[float, float]:
    """The paths of a batch, for each of its segments; and the batch with what the table learns of it."""
    routed = layout_of([video_query(window_s)], {}).queries[0]
    state = CoordinatedState.new(routed, range(SITES))
    rates = dict.fromkeys(NAMES, 300.0)
    counted = {frozenset(pair): (1.0, MATCHING) for pair in ("ab", "bc")}
    deciding, batches = [], []
    for batch in range(DECISIONS):
        began = time.process_time()
        paths = state.routes(batch).paths
        decided = time.process_time()
        first, last = batch * BATCH_US, (batch + 1) * BATCH_US - 1
        units = {
            alias: [
                Unit(unit_number(batch, i), path.places, first, last, UNIT_ROWS) for i, path in enumerate(its)
            ]
            for alias, its in paths.items()
        }
        marks = dict.fromkeys(NAMES, first)
        table = informed(state.table.added(units).without_before(marks), routed, rates, counted)
        state = replace(state, table=table, watermarks=marks, unit_load=0.01)
        batches.append(time.process_time() - began)
        deciding.append((decided - began) / sum(map(len, paths.values())))
    filled = 2 * window_s * 1_000_000 // BATCH_US
    return median(deciding[filled:]) * 1e6, median(batches[filled:]) * 1e6

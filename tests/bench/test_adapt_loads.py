"""The loads of `bench adapt`: what is told of them, and that they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.adapt.events import Event, EventKind
from anabranch.bench.adapting.adapt_loads import _judged, run_loads
from anabranch.bench.engine_run import WARM_UP_BATCHES
from anabranch.bench.report import loads_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def benefit(moves: int, expected: float, observed: float, effect: str = "useful") -> Event:
    data = {"moves": moves, "expected": expected, "observed": observed, "effect": effect}
    return Event(9, EventKind.BENEFIT_OBSERVED, "", data)


def test_savings_are_means_over_the_moves_that_could_be_judged() -> None:
    events = [
        *(Event(3, EventKind.MOVE_ACCEPTED, "") for _ in range(4)),
        benefit(3, 0.4, 0.2),
        benefit(1, 0.2, -0.2),
        benefit(9, 0.9, -0.9, "unknown"),
    ]
    moved, fixed = ([{"criticalPathMs": ms}] * (WARM_UP_BATCHES + 2) for ms in (30.0, 60.0))
    result = _judged("zipf", moved, events, fixed)
    assert (result.moves, result.critical, result.least) == (4, 0.5, -0.2)
    assert result.expected == pytest.approx(0.35)
    assert result.observed == pytest.approx(0.1)


@pytest.mark.spark
def test_loads_too_small_to_gain_anything_move_nothing(spark: SparkSession, tmp_path: Path) -> None:
    results = list(run_loads(spark, tmp_path, rows=200, batches=WARM_UP_BATCHES + 2))
    assert [r.moves for r in results] == [0] * len(results)
    assert loads_table(results).row_count == len(results)

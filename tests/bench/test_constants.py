"""The measure of constants, with few queries."""

from __future__ import annotations

import json
from pathlib import Path

from anabranch.bench.many.constants import constants_table, run_constants
from anabranch.bench.report import plain_json


def test_a_few_queries_stay_far_below_the_bounds_for_a_thousand(tmp_path: Path) -> None:
    result = run_constants(tmp_path, queries=10, rows=100)
    assert result.ratio > 0
    assert result.too_much() == []
    assert constants_table(result).row_count == 7
    assert json.dumps(plain_json("constants", result))

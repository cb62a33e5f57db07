"""Long runs of equal hashes are found exactly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from anabranch.operators.rows.run_lengths import long_runs


@pytest.mark.parametrize("seed", range(20))
def test_every_hash_with_enough_rows_is_found_with_its_count(seed: int) -> None:
    draw = np.random.default_rng(seed)
    hashes = np.sort(draw.zipf(1.5, draw.integers(0, 300)).clip(max=40)).astype(np.int64)
    for least in (1, 2, 5, 50, 400):
        expected = {h: n for h, n in Counter(hashes.tolist()).items() if n >= least}
        assert dict(long_runs(hashes, least)) == expected

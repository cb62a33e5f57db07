"""Wire rows told apart by input, in one pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anabranch.engine.task.arrival.arrivals import Arrivals, _positions_by_value
from anabranch.exchange.address import PARTITIONS

EVERYTHING = np.ones(PARTITIONS, dtype=np.bool_)
ROWS = 5000


class Counted(np.ndarray):
    """An array that counts how many elements of it, and of what is made of it, are computed on."""

    elements = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        Counted.elements += max(np.size(i) for i in inputs)
        plain = [i.view(np.ndarray) if isinstance(i, Counted) else i for i in inputs]
        result = getattr(ufunc, method)(*plain, **options)
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def looked_at_to_count(inputs: int) -> int:
    """Elements computed on, to count rows of one stream that so many inputs want."""
    layout = SimpleNamespace(inputs=[SimpleNamespace(stream="s", stateless=False) for _ in range(inputs)])
    task = SimpleNamespace(layout=layout, aligned={}, coordinated={}, hot=())
    arrivals = Arrivals(task, EVERYTHING, EVERYTHING)  # type: ignore[arg-type]
    tags = np.random.default_rng(3).integers(0, inputs, ROWS, dtype=np.int32) * 2 + 1
    Counted.elements = 0
    arrivals._count(tags.view(Counted), np.arange(ROWS).view(Counted), None)
    stream = arrivals.streams["s"]
    assert (stream.accepted, stream.max_ts) == (ROWS, ROWS - 1)
    return Counted.elements


def test_rows_are_not_looked_at_once_per_input() -> None:
    assert looked_at_to_count(inputs=200) < 2 * looked_at_to_count(inputs=2)


@pytest.mark.parametrize("most", [3, 1 << 20], ids=["few", "more than 16 bits"])
def test_positions_of_each_value_in_order(most: int) -> None:
    values = np.random.default_rng(3).integers(-2, most, ROWS, dtype=np.int32)
    found = dict(_positions_by_value(values))
    assert list(found) == np.unique(values).tolist()
    for value, positions in found.items():
        assert positions.tolist() == np.flatnonzero(values == value).tolist()


def test_where_there_is_nothing_there_is_no_value() -> None:
    assert not list(_positions_by_value(np.array([], dtype=np.int32)))

"""The sixteen cases of CAPE, figure 6: which rows of a result are old."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.engine.task.track_run import TrackRun
from tests.engine.directed_runs import AB_CD, ABC_D, AC_BD, BCD_A, MS, PT, check_directed, everywhere, joined
from tests.engine.nasty_runs import rows
from tests.support.generated import Batch

FOUR = joined("a", "b", "c", "d")
PROBES = "[a b c d, b c d a, c d a b, d a b c]"
NEW = {
    1: "",
    2: "d",
    3: "c",
    4: "b",
    5: "a",
    6: "cd",
    7: "bd",
    8: "ab",
    9: "ad",
    10: "bc",
    11: "ac",
    12: "bcd",
    13: "acd",
    14: "abd",
    15: "abc",
    16: "abcd",
}
"""By number of the case, the streams whose sub-tuple came since the migration began."""


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Results by the box that gave them."""
    given = {"old box": 0, "new box": 0}
    real = TrackRun._run

    def run(self: Any, operator: Any, writer: Any) -> None:
        before = writer.rows
        real(self, operator, writer)
        box = "new box" if self._work.until is None and self._work.after else "old box"
        given[box] += writer.rows - before

    with mock.patch.object(TrackRun, "_run", run):
        yield given


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(ABC_D, BCD_A, id="figure 4"),
        pytest.param(AB_CD, AC_BD, id="bushy"),
        pytest.param("(a (b (c d)))", AB_CD, id="right-deep"),
        pytest.param(PROBES, ABC_D, id="without states"),
    ],
)
@pytest.mark.parametrize("order", ["all at once", "forwards", "backwards"])
@pytest.mark.parametrize("case", NEW)
def test_every_result_comes_from_one_box(case: int, order: str, old: str, new: str) -> None:
    names = sorted(NEW[case], reverse=order == "backwards")
    groups = [names] if order == "all at once" else [[name] for name in names]
    before = [name for name in "abcd" if name not in names]
    batches = [_one_row_of((), 0), _one_row_of(before, 0), *(_one_row_of(group, 1) for group in groups)]
    batches[1]["a"] = pa.concat_tables([batches[1]["a"], rows((2, 0))])  # keeps the old box
    with counted() as given:
        told = check_directed([FOUR], batches, {0: everywhere(old, MS), 1: everywhere(new, PT)})
    assert told.results["q"].num_rows == 1
    assert given == ({"old box": 0, "new box": 1} if case == 16 else {"old box": 1, "new box": 0})


def _one_row_of(streams: Collection[str], time: int) -> Batch:
    return {name: rows(*[(1, time)] if name in streams else []) for name in "abcd"}

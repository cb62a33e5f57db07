"""What tracks tell is added up: work and time of a join, pairs of a sample by the references that meet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.engine.reports import JoinReport
from anabranch.engine.settings import Settings
from anabranch.engine.task import track_report
from anabranch.engine.task.track_report import tell_edges, tell_work
from anabranch.plan.cost.edge_count import EdgeCount
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import running


def test_work_of_two_tracks_is_added_up() -> None:
    kept = {"ab": [pa.record_batch({"id": [1, 2, 3]})]}
    operator: Any = SimpleNamespace(probes=5, pairs=7, kept=kept)
    join = JoinReport()
    for _ in range(2):
        tell_work(join, operator, 0.5)
    assert (join.busy_s, join.probes, join.pairs, join.inserts) == (1.0, 10, 14, 6)


@pytest.mark.parametrize("from_left", [False, True])
def test_new_rows_of_one_side_probe_the_other(from_left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(STREAMS, [joined("a", "b", "c")], Settings(sites=1, slots=1)) as run:
        edges = run.loop._task(0, 0.0).work[0][0].plan.edges
    assert edges
    probing = [(edge.left if from_left else edge.right) for edge in edges]
    monkeypatch.setattr(track_report, "sample_edge", lambda *_: EdgeCount(20, 3, 1))
    join, new = JoinReport(), {probing[0].input: object()}
    for _ in range(2):
        tell_edges(join, edges, new, {}, from_left=from_left)  # type: ignore[arg-type]
    silent = [edge for edge, side in zip(edges, probing, strict=True) if side.input not in new]
    assert join.edges[frozenset(edges[0].aliases)] == (40, 6, 2)
    assert not any(frozenset(edge.aliases) in join.edges for edge in silent)

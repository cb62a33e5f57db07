"""New rows of a stream whose windows are grouped: kept as their windows need them, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.group.windows.window_rows import window_rows
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import LeafNode
from anabranch.plan.states.state_id import StateId


class WindowIntake:
    """One query's new rows at one site, for one batch."""

    def __init__(self, plan: LocalPlan, new: Mapping[int, RowSet]) -> None:
        self._plan = plan
        self._new = new
        self.kept: dict[StateId, list[pa.RecordBatch]] = {}
        self.pairs = 0
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)

    def run(self) -> None:
        root, node = self._plan.root, self._plan.window
        assert isinstance(root, LeafNode)
        assert node is not None
        rows = self._new.get(root.input)
        if rows is not None and len(rows):
            self.kept[node.state] = [window_rows(rows, node, time=TIME).batch]

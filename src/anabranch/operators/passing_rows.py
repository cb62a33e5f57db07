"""A query of one stream without a window: its rows, filtered at ingest, are its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.rows.expressions import project
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import LeafNode
from anabranch.plan.states.state_id import StateId


class PassingRows:
    """One query's new rows at one site, for one batch."""

    def __init__(self, plan: LocalPlan, new: Mapping[int, RowSet], emit: Callable[[pa.Table], None]) -> None:
        assert isinstance(plan.root, LeafNode)
        self._leaf = plan.root
        self._outputs = plan.query.outputs
        self._new = new
        self._emit = emit
        self.kept: dict[StateId, list[pa.RecordBatch]] = {}
        self.pairs = 0
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)

    def run(self) -> None:
        rows = self._new.get(self._leaf.input)
        if rows is not None:
            names = self._leaf.names.items()
            table = pa.table({name: rows.batch.column(physical) for name, physical in names})
            if table.num_rows:
                self._emit(project(table, self._outputs))

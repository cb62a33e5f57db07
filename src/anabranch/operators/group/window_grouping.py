"""What aggregates and DISTINCT over a window share: final rows of a site, and the work they are charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.operators.group.answered_share import EVERYTHING, AnsweredShare
from anabranch.operators.group.final_rows import Emission, FinalRows, final_rows
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.expressions import filter_rows, project
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import QuotaExceeded
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateId


class WindowGrouping:
    """One query's grouping at one site, for one step.

    Parameters
    ----------
    query, node
        The query and its compiled grouping.
    blocks
        Rows kept from earlier batches; some may belong to other sites.
    emission
        Which rows are final.
    owned
        Whether each partition belongs to the site.
    emit
        Takes each table of results.
    quota
        Most ranges of blocks that a step may look into.
    share
        Which rows of hot groups are answered here; windows of GROUP BY are answered by the owner.
    """

    def __init__(
        self,
        query: Query,
        node: WindowNode,
        *,
        blocks: Sequence[RowSet],
        emission: Emission,
        owned: Flags,
        emit: Callable[[pa.Table], None],
        quota: int,
        share: AnsweredShare = EVERYTHING,
    ) -> None:
        self._query = query
        self._node = node
        self._blocks = blocks
        self._emission = emission
        self._owned = owned
        self._emit = emit
        self._quota = quota
        self._share = share
        self.kept: dict[StateId, list[pa.RecordBatch]] = {}
        self.pairs = 0
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)
        self.final = 0
        """Rows that became final."""

    def _final_rows(self) -> FinalRows | None:
        rows = final_rows(self._blocks, self._emission, self._owned, share=self._share)
        self.final = 0 if rows is None else len(rows)
        return rows

    def _emit_columns(self, columns: dict[str, pa.Array], results: int) -> None:
        """Emit results that HAVING lets through; `columns` are keys and aggregates."""
        columns["#"] = pa.array(np.zeros(results, dtype=np.int8))  # a query of constants still has rows
        table = pa.table(columns)
        if self._node.having is not None:
            table = filter_rows(table, [self._node.having])
        if table.num_rows:
            self._emit(project(table, self._query.outputs))

    def _charge(self, rows: FinalRows) -> None:
        """Count that every row looks into every block."""
        looks = np.bincount(partition_of(rows.hashes), minlength=PARTITIONS)
        self.pairs_by_partition += looks * len(rows.blocks)
        self._charge_pairs(len(rows) * len(rows.blocks))

    def _charge_pairs(self, pairs: int) -> None:
        self.pairs += pairs
        if self.pairs > self._quota:
            raise QuotaExceeded(
                f"query {self._query.name!r} looked into more than {self._quota:,} ranges in one batch at "
                "one site and was ended: start it under a new name, with fewer rows by WHERE or a larger "
                "quota_pairs"
            )

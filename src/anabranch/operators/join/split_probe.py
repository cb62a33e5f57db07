"""The join of split keys at one site: origins look for all that is older, and new rows of higher rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.operators.join.multiway_probe import MultiwayProbe
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import LeafNode, Operand


class SplitProbe(MultiwayProbe):
    """One query's hot keys at one site, for one batch.

    `new` has all rows of the batch that may be met here; results start from those of `origins` only.
    """

    origins: Mapping[int, RowSet]

    def _reached(self, node: Operand) -> Iterator[RowSet]:
        if not isinstance(node, LeafNode):
            yield from super()._reached(node)
        elif (rows := self.origins.get(node.input)) is not None:
            yield rows

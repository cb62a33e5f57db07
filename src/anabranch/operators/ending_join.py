"""The window join of a track that ends: at its root, new rows are not even matched with new ones.

Results without an old row are the newer track's (papers/dcape.txt, section 3.2). Leaving them out after
they were made would cost the sender, which is the loaded site, as much as if nothing had moved.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from anabranch.operators.rows import RowSet
from anabranch.operators.window_join import WindowJoin
from anabranch.plan.layout import OLD
from anabranch.plan.local_plan import JoinNode


class EndingJoin(WindowJoin):
    """One query's plan at the site of a track that ends, for one batch."""

    def _matched(
        self, node: JoinNode, new: RowSet, old: RowSet, *, new_is_left: bool
    ) -> Iterator[pa.RecordBatch]:
        if self._is_root(node):
            if old.is_old is False:
                new = with_old_member(new)
            elif new.is_old is False:
                old = with_old_member(old)
        yield from super()._matched(node, new, old, new_is_left=new_is_left)


def with_old_member(rows: RowSet) -> RowSet:
    """Of rows that tell one by one whether they are old, those that are."""
    if rows.is_old is not None:
        return rows
    marks = rows.batch.column(OLD)
    if marks.true_count == len(marks):
        return rows.aged(is_old=True)
    return rows.derived(with_old_member, lambda: RowSet(rows.batch.filter(marks)).aged(is_old=True))

"""What a query may keep of one batch at one site, in bytes that are counted while its rows are made.

Results leave in pieces. Rows that are kept, of intermediate joins and of results that are grouped, stay in
memory while they are few; what fills a piece is written to a file and read from there::

    rows made ─► gathered ─► a full piece ─► file, mapped
                    └─────── the rest ─────► memory
                    └─────── more in all than the budget: the query has gone too far
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from anabranch.plan.states.state_id import StateId

Spill = Callable[[StateId, pa.RecordBatch], pa.RecordBatch]
"""Writes rows of a state to a file and gives them back as they lie there."""
MEBIBYTE = 1 << 20
PIECE_SHARE = 16
"""A piece that is sorted and written is held some four times: these may take a quarter of the budget."""
MOST_PIECE = 128 * MEBIBYTE
FLUSH_SHARE = 32
"""Rows on their way to a predicate or a file are held some six times."""
LEAST_FLUSH = MEBIBYTE
MOST_FLUSH = 64 * MEBIBYTE


class QuotaExceeded(Exception):
    """A query produced more than its quota allows in one batch."""


class KeptTooMuch(QuotaExceeded):
    """A query was about to keep more rows of one batch than its budget has room for."""

    def __init__(self, message: str, budget: int) -> None:
        super().__init__(message)
        self.budget = budget


def piece_bytes(budget: int | None) -> int:
    """Bytes of kept rows that are gathered before they go to a file.

    >>> piece_bytes(1 << 30) == piece_bytes(None) // 2 == 64 << 20
    True
    """
    return MOST_PIECE if budget is None else min(MOST_PIECE, budget // PIECE_SHARE)


class WorkMemory:
    """The account of one query in one batch at one site.

    Parameters
    ----------
    query
        Its name, for the message.
    budget
        Bytes that it may keep; None is any number.
    spill
        Where full pieces go; without it they stay in memory.
    """

    def __init__(self, query: str, budget: int | None = None, spill: Spill | None = None) -> None:
        self._query = query
        self._budget = budget
        self._spill = spill
        self._spilled: dict[int, pa.RecordBatch] = {}
        self.piece = piece_bytes(budget)
        """Bytes of kept rows that go to a file together."""
        self.kept = 0
        """Bytes so far."""
        self.flush = MOST_FLUSH if budget is None else budget // FLUSH_SHARE
        self.flush = min(MOST_FLUSH, max(LEAST_FLUSH, self.flush))
        """Bytes of rows after which predicates run and results leave."""

    def pieces(self, tables: Iterable[pa.Table]) -> Iterator[tuple[list[pa.Table], bool]]:
        """Rows to be kept, in lists of bounded size, each with whether it is a full piece."""
        gathered: list[pa.Table] = []
        size = 0
        for table in tables:
            if table.num_rows:
                self.count(table.nbytes)
                gathered.append(table)
                size += table.nbytes
            if size >= self.piece:
                yield gathered, True
                gathered, size = [], 0
        if gathered:
            yield gathered, False

    def count(self, size: int) -> None:
        """Count rows that will be kept.

        Raises
        ------
        KeptTooMuch
            They are too many.
        """
        self.kept += size
        if self._budget is not None and self.kept > self._budget:
            raise KeptTooMuch(
                f"query {self._query!r} made more than {self._budget / MEBIBYTE:,.1f} MiB of rows to keep in "
                "one batch at one site and was ended: start it under a new name, with narrower windows or "
                "predicates or a larger work_memory_mb",
                self._budget,
            )

    def placed(self, state: StateId, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A full piece in its file, or as it is where there is none."""
        if self._spill is None:
            return rows
        placed = self._spill(state, rows)
        self._spilled[id(placed)] = placed
        return placed

    def is_placed(self, rows: pa.RecordBatch) -> bool:
        """Whether rows are in a file."""
        return id(rows) in self._spilled

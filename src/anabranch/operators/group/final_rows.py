"""Final rows: those between two watermarks, which no later arrival can precede any more.

emitted before                 watermark committed before this batch
      ├──────── final now ────────┤
──────┴──────────────────────────┴────────────► event time
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.operators.group.answered_share import EVERYTHING, AnsweredShare
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.order import by_hash
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, SEQUENCE, TIME

CHUNK_ROWS = 1 << 19
"""Final rows handled at a time: bounds memory when much becomes final at once."""


@dataclass(frozen=True, slots=True)
class Emission:
    """Rows with `since <= ts < until` are final in this step and were not before.

    Under a memory budget partitions take turns, so that some have emitted further than others.
    """

    since: int
    """The time up to which all partitions have emitted."""
    until: int
    ahead: Mapping[int, int] = field(default_factory=dict)
    """By partition that has emitted further than that: up to which time."""
    owing: frozenset[int] = frozenset()
    """Partitions on disk: what is final of them is emitted when they are in memory."""

    def answered(self, owned: Flags) -> Flags:
        """Which of the partitions take part in this step."""
        if not self.owing:
            return owned
        here = owned.copy()
        here[list(self.owing)] = False
        return here

    def since_by_partition(self) -> Int64s:
        """The time up to which each partition has emitted before this step."""
        since = np.full(PARTITIONS, self.since)
        since[list(self.ahead)] = list(self.ahead.values())
        return since

    def after(self) -> tuple[int, dict[int, int]]:
        """`since` and `ahead` once this step is done.

        >>> Emission(10, 20, ahead={7: 15}, owing=frozenset({3, 7})).after()[0]
        10
        >>> Emission(10, 20, ahead={7: 15}).after()
        (20, {})
        """
        if not self.owing and not self.ahead:
            return self.until, {}
        since = self.until_by_partition()
        least = int(since.min())
        return least, {int(p): int(since[p]) for p in np.flatnonzero(since > least)}

    def until_by_partition(self) -> Int64s:
        """The time up to which each partition has emitted after this step."""
        since = self.since_by_partition()
        here = self.answered(np.ones(PARTITIONS, dtype=bool))
        since[here] = np.maximum(since[here], self.until)
        return since


@dataclass(frozen=True, slots=True)
class FinalRows:
    """Rows of several blocks, ascending by (hash, time) and then by arrival, where it is known."""

    blocks: Sequence[RowSet]
    block: Int64s
    """Number of the block of each row."""
    position: Int64s
    hashes: Int64s
    times: Int64s

    def __len__(self) -> int:
        return len(self.position)

    def at(self, rows: Flags | slice) -> FinalRows:
        """Some of the rows, in the same order."""
        return FinalRows(
            self.blocks, self.block[rows], self.position[rows], self.hashes[rows], self.times[rows]
        )

    def column(self, name: str) -> pa.Array:
        """Values of a column, row by row."""
        pieces, order = [], []
        for number, block in enumerate(self.blocks):
            mine = np.flatnonzero(self.block == number)
            if len(mine):
                pieces.append(block.batch.column(name).take(pa.array(self.position[mine])))
                order.append(mine)
        if len(pieces) == 1:
            return pieces[0]
        back = np.empty(len(self), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(self))
        return pa.concat_arrays(pieces).take(pa.array(back))


def final_rows(
    blocks: Sequence[RowSet],
    emission: Emission,
    owned: Flags,
    *,
    by: str = TIME,
    share: AnsweredShare = EVERYTHING,
) -> FinalRows | None:
    """Rows of the owned partitions that an emission makes final; None when there are none.

    Parameters
    ----------
    by
        Column of the times that become final, and of those of the rows that are found.
    share
        Which of them are answered here.
    """
    owned = emission.answered(owned)
    if share.lanes:
        parts = share.of_lane(blocks, owned, emission.since_by_partition(), emission.until)
    else:
        parts = [_final_in(block, emission, owned, by, share) for block in blocks]
    found = [(number, at) for number, at in enumerate(parts) if len(at)]
    if not found:
        return None
    hashes = np.concatenate([int64s(blocks[n].batch, HASH)[at] for n, at in found])
    times = np.concatenate([int64s(blocks[n].batch, by)[at] for n, at in found])
    block = np.concatenate([np.full(len(at), n) for n, at in found])
    position = np.concatenate([at for _, at in found])
    sequence, only = None, blocks[found[0][0]]
    has_sequence = SEQUENCE in blocks[0].batch.schema.names
    if len(found) == 1 and only.in_order and by == TIME and not has_sequence:
        return FinalRows(blocks, block, position, hashes, times)
    if has_sequence:
        sequence = np.concatenate([int64s(blocks[n].batch, SEQUENCE)[at] for n, at in found])
    hashes, order = by_hash(hashes, times, sequence)
    return FinalRows(blocks, block[order], position[order], hashes, times[order])


def time_range(rows: RowSet, by: str = TIME) -> tuple[int, int]:
    """Least and largest event time of a set of rows."""
    times = int64s(rows.batch, by)
    return rows.derived(("time range", by), lambda: (int(times.min()), int(times.max())))


def _final_in(block: RowSet, emission: Emission, owned: Flags, by: str, share: AnsweredShare) -> Int64s:
    least, largest = time_range(block, by)
    if largest < emission.since or least >= emission.until:
        return np.empty(0, dtype=np.int64)
    times = int64s(block.batch, by)
    pending = share.without_groups(block, _pending(block, emission.since, by))
    at: Int64s = pending[times[pending] < emission.until]
    partitions = partition_of(int64s(block.batch, HASH)[at])
    mine = owned[partitions]
    if emission.ahead:
        mine &= times[at] >= emission.since_by_partition()[partitions]
    found: Int64s = at[mine]
    return found


def _pending(block: RowSet, since: int, by: str) -> Int64s:
    """Positions of rows from `since` on.

    The last answer is kept and narrowed down, so that a big block of which little is pending is
    searched through once and not in every batch.
    """
    times = int64s(block.batch, by)
    known = block.derived(("pending", by), _Pending)
    if known.since > since:
        known.positions = np.flatnonzero(times >= since)
    elif known.since < since:
        known.positions = known.positions[times[known.positions] >= since]
    known.since = since
    return known.positions


@dataclass(slots=True)
class _Pending:
    """Positions of the rows from some time on; at first, of nothing."""

    since: int = 2**63
    positions: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))

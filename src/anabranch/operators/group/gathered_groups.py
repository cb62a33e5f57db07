"""Rows of some groups taken out of the blocks, under exact group numbers instead of hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.group.final_rows import Emission, FinalRows
from anabranch.operators.group.folds.window_bounds import Runs, positions_in, window_bounds
from anabranch.operators.group.group_keys import group_numbers, mixed_hashes, needs_no_proof, same_keys
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet, concat_rows, int64s
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import DEADLINE, HASH, SEQUENCE, TIME
from anabranch.plan.logical import UNBOUNDED_US

_FINAL = "#final"


@dataclass(frozen=True, slots=True)
class GatheredGroups:
    """All that the windows of some final rows can reach, as one sorted set of rows."""

    rows: FinalRows
    """The final rows, in the one block of gathered rows; their hashes are group numbers."""
    group_start: Int64s
    """Position at which the group of each final row begins."""


def shared_hashes(rows: FinalRows, node: WindowNode) -> Int64s:
    """Hashes of final rows that stand for more than one group; mostly none."""
    if all(needs_no_proof(block, node) for block in rows.blocks):
        return np.empty(0, dtype=np.int64)
    found = [mixed_hashes(block, node) for block in rows.blocks]
    first = np.append(True, rows.hashes[1:] != rows.hashes[:-1])
    samples = rows.at(first)
    sample = RowSet(pa.record_batch({key: samples.column(key) for key in node.keys}))
    for block in rows.blocks:
        runs = Runs.of(block)
        at = np.minimum(np.searchsorted(runs.hashes, samples.hashes), len(runs.hashes) - 1)
        present = np.flatnonzero(runs.hashes[at] == samples.hashes)
        same = same_keys(sample, present, block, runs.starts[at[present]], node.keys)
        found.append(samples.hashes[present[~same]])
    return np.unique(np.concatenate(found))


def gather_groups(rows: FinalRows, node: WindowNode) -> GatheredGroups:
    """Every row with a hash of the final rows and a time that their windows by time reach."""
    earliest, latest = int(rows.times.min()) - node.window_us, int(rows.times.max())
    hashes = np.unique(rows.hashes)
    ranges = [_runs(block, hashes, earliest, latest) for block in rows.blocks]
    return _gathered(rows, node, ranges)


def gather_newest(rows: FinalRows, node: WindowNode, *, emission: Emission, before: int) -> GatheredGroups:
    """The final rows with the `before` rows of their group that come before them in each block."""
    hashes = np.unique(rows.hashes)
    shared = np.isin(hashes, shared_hashes(rows, node))
    ranges = []
    for block in rows.blocks:
        start, end = _runs(block, hashes, -UNBOUNDED_US, emission.until - 1)
        first_final, _ = _runs(block, hashes, emission.since, emission.until - 1)
        first_final = np.where(end > start, first_final, start)
        ranges.append((np.where(shared, start, np.maximum(start, first_final - before)), end))
    return _gathered(rows, node, ranges)


def _runs(block: RowSet, hashes: Int64s, earliest: int, latest: int) -> tuple[Int64s, Int64s]:
    ranges = window_bounds(
        block,
        of_hashes=hashes,
        first=np.full(len(hashes), earliest),
        last=np.full(len(hashes), latest),
    )
    return ranges.starts, ranges.ends


def _gathered(rows: FinalRows, node: WindowNode, ranges: list[tuple[Int64s, Int64s]]) -> GatheredGroups:
    pieces = []
    # Blocks of different age may differ in columns that other queries took.
    columns = _columns(rows.blocks[0], node)
    for number, (block, (starts, ends)) in enumerate(zip(rows.blocks, ranges, strict=True)):
        at = positions_in(starts, ends)
        if len(at):
            wanted = np.isin(at, rows.position[rows.block == number])
            taken = block.batch.select(columns).take(pa.array(at))
            pieces.append(taken.append_column(_FINAL, pa.array(wanted)))
    batch = concat_rows(pieces)
    numbers = group_numbers(batch, node.keys)
    gathered = RowSet.sorted(
        batch.set_column(batch.schema.get_field_index(HASH), HASH, pa.array(numbers)), TIME
    )
    hashes, times = int64s(gathered.batch, HASH), int64s(gathered.batch, TIME)
    position = np.flatnonzero(gathered.batch.column(_FINAL).to_numpy(zero_copy_only=False))
    final_hashes = hashes[position]
    final = FinalRows([gathered], np.zeros_like(position), position, final_hashes, times[position])
    return GatheredGroups(final, np.searchsorted(hashes, final_hashes))


def _columns(block: RowSet, node: WindowNode) -> list[str]:
    present = set(block.batch.schema.names)
    arguments = (a.column for a in node.aggregates if a.column is not None)
    return [
        c for c in dict.fromkeys((HASH, TIME, DEADLINE, SEQUENCE, *node.keys, *arguments)) if c in present
    ]

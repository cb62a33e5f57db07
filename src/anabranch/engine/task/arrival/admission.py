"""Admission: which rows a site takes now, and which wait for a later batch.

Rows wait for two reasons (Flux, sections 3 and 4): their site is over its budget for the
batch, so that the rest is spooled and one slow site does not hold up the others; or their
partition is spilled, and its input stays pending until the partition is activated. Waiting rows
are blocks like any other, of a state named after the one they will enter. They were accepted on
arrival and are never late afterwards; as long as they wait they hold expiry back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.adapt.memory.admission import OPEN as OPEN
from anabranch.adapt.memory.admission import Admission as Admission
from anabranch.adapt.memory.site_budgets import RowBudget
from anabranch.adapt.memory.skew_buffer import SkewBuffer
from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet, concat_rows, int64s
from anabranch.plan.inputs import HASH, TIME, Layout
from anabranch.plan.stations.stations import travelling_states
from anabranch.state.block import BlockMeta

ARRIVAL = "arrival"
"""Column of waiting rows: the batch in which they arrived, so that they leave in that order."""

LONGEST_WAIT = 4
"""Batches after which a row waits for no budget any more."""


def waiting_blocks(layout: Layout, blocks: Sequence[BlockMeta]) -> tuple[BlockMeta, ...]:
    """Blocks of rows that wait to enter a state; those of a removed query wait for nothing."""
    found = [block for block in blocks if block.state.is_waiting]
    if not found:
        return ()
    known = {source.state.waiting for source in layout.inputs}
    known |= {state.waiting for state in travelling_states(layout)}
    return tuple(block for block in found if block.state in known)


def oldest_waiting(layout: Layout, waiting: Sequence[BlockMeta]) -> dict[str, int]:
    """Per stream the oldest event time of a row that waits to enter a state.

    Whatever a joined row that waits can meet is out of its streams' reach only when it is out of reach of the
    row, too: of all its streams the newest time counts.
    """
    if not waiting:
        return {}
    streams_of = {state.waiting: streams for state, streams in travelling_states(layout).items()}
    streams_of |= {s.state.waiting: frozenset([s.stream]) for s in layout.inputs if not s.stateless}
    oldest: dict[str, int] = {}
    for block in waiting:
        for stream in streams_of.get(block.state, ()):
            oldest[stream] = min(block.min_ts, oldest.get(stream, block.min_ts))
    return oldest


def split_spilled(
    rows: pa.RecordBatch, spilled: Collection[int]
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Joined rows that enter now, and those that wait for their partitions, if there are any."""
    waits = np.isin(partition_of(int64s(rows, HASH)), list(spilled))
    if not waits.any():
        return rows, None
    return rows.filter(pa.array(~waits)), rows.filter(pa.array(waits))


def admit(
    new: Mapping[int, RowSet],
    waiting: Mapping[int, Sequence[RowSet]],
    *,
    admission: Admission,
    site_of: npt.NDArray[np.int32],
    batch: int,
    unhindered: Collection[int] = (),
) -> tuple[dict[int, RowSet], dict[int, pa.RecordBatch]]:
    """Split rows, by input, into those that enter now and those that wait (again).

    Parameters
    ----------
    unhindered
        Inputs whose rows enter although their partition is spilled: no join reads them.
    """
    rows = {source: _in_order(new.get(source), waiting.get(source, ()), batch) for source in {*new, *waiting}}
    partitions = {source: partition_of(int64s(r.batch, HASH)) for source, r in rows.items()}
    spilled = list(admission.spilled)
    waits = {s: np.isin(p, () if s in unhindered else spilled) for s, p in partitions.items()}
    for site, budget in admission.row_budgets.items():
        mine = {s: np.flatnonzero((site_of[p] == site) & ~waits[s]) for s, p in partitions.items()}
        if sum(map(len, mine.values())) > budget.rows:
            _put_off(rows, partitions, mine, budget, due=batch - LONGEST_WAIT, waits=waits)
    now, later = {}, {}
    for source, held in waits.items():
        batch_rows = rows[source].batch
        if held.any():
            later[source] = batch_rows.filter(pa.array(held))
            batch_rows = batch_rows.filter(pa.array(~held))
        if batch_rows.num_rows:
            now[source] = RowSet(batch_rows.drop_columns([ARRIVAL]))  # still sorted
    return now, later


def _in_order(new: RowSet | None, waiting: Sequence[RowSet], batch: int) -> RowSet:
    pieces = [w.batch for w in waiting]
    if new is not None:
        arrival = pa.array(np.full(len(new), batch))
        pieces.append(new.batch.append_column(ARRIVAL, arrival))
    return RowSet(pieces[0]) if len(pieces) == 1 else RowSet.sorted(concat_rows(pieces), TIME)


def _put_off(
    rows: Mapping[int, RowSet],
    partitions: Mapping[int, Int64s],
    mine: Mapping[int, Int64s],
    budget: RowBudget,
    *,
    due: int,
    waits: Mapping[int, npt.NDArray[np.bool_]],
) -> None:
    """Mark the rows of a site that wait: in every partition the youngest, by arrival and then by time.

    Parameters
    ----------
    mine
        Positions of the site's rows, by input.
    due
        Rows that arrived in this batch or before have waited long enough.
    """
    partition = np.concatenate([partitions[s][at] for s, at in mine.items()]).astype(np.int64)
    arrival = np.concatenate([int64s(rows[s].batch, ARRIVAL)[at] for s, at in mine.items()])
    time = np.concatenate([int64s(rows[s].batch, TIME)[at] for s, at in mine.items()])
    counts = np.bincount(partition, minlength=PARTITIONS)
    buffer, here = SkewBuffer(budget.waiting), np.zeros(PARTITIONS, dtype=np.int64)
    taken = buffer.admit(counts, np.array([float(budget.rows)]), here)
    taken += buffer.overflow(counts, taken)
    order = np.lexsort((time, arrival, partition))
    first = np.cumsum(counts) - counts
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - first[partition[order]]
    held = (place >= taken[partition]) & (arrival > due)
    ends = np.cumsum([len(at) for at in mine.values()])[:-1]
    for (source, at), its in zip(mine.items(), np.split(held, ends), strict=True):
        waits[source][at[its]] = True

"""What ingest sends, and how it is read when joins are laid out otherwise.

Spark's query is made for one layout. A join that changes between a tree and stations needs the same rows of
its streams, with the same columns in the same lanes, under other tags and addresses. These are found from
what rows carry, so that the query need not be started anew. It is asked in two languages, as routers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.engine.task.arrival.wire import TAG, Value, Wire, rows_wanted
from anabranch.exchange.router import FIRST
from anabranch.plan.inputs import HASH, Input, Layout, key_hash_column


@dataclass(frozen=True, slots=True)
class ReadAs:
    """An input of the layout there is now, for which rows of a sent one are read.

    Attributes
    ----------
    address
        A lane with the addresses, or the one address of all rows; None where they have theirs already.
    """

    input: int
    address: str | int | None = None

    def sql(self) -> str:
        """Its address in Spark SQL."""
        if self.address is None:
            return HASH
        return f"`{self.address}`" if isinstance(self.address, str) else f"CAST({self.address} AS BIGINT)"


@dataclass(frozen=True, slots=True)
class Relabelling:
    """How rows of one layout are read as rows of another.

    Attributes
    ----------
    inputs
        By number of a sent input, those that read its rows; empty where rows are read as they were sent.
    """

    inputs: tuple[tuple[ReadAs, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs)

    @property
    def is_copying(self) -> bool:
        """Whether some rows are read several times."""
        return any(len(readers) > 1 for readers in self.inputs)

    def placed(self, rows: pa.Table) -> pa.Table:
        """The rows with the tags and addresses of the layout there is now."""
        tags = rows.column(TAG).to_numpy()
        pieces = [rows.filter(pa.array(tags < 0))]
        for number, readers in enumerate(self.inputs):
            mine = rows.filter(pa.array(tags >> 1 == number)) if readers else None
            for place, reader in enumerate(readers if mine is not None and mine.num_rows else ()):
                assert mine is not None
                pieces.append(_read_as(mine, reader, is_first=place == 0))
        return pa.concat_tables(pieces)

    def sql(self) -> dict[str, str]:
        """Tag and address in Spark SQL, where no row is read twice."""
        readers = [its[0] if its else ReadAs(0) for its in self.inputs]
        # One text constant, which Spark folds to an array: many literals would have to be analysed.
        table = f"CAST(split('{';'.join(str(2 * r.input) for r in readers)}', ';') AS ARRAY<INT>)"
        tag = f"CAST(IF({TAG} < 0, {TAG}, get({table}, shiftright({TAG}, 1)) + ({TAG} & {FIRST})) AS INT)"
        moved = [(i, r) for i, r in enumerate(readers) if r.address is not None]
        cases = " ".join(f"WHEN {i} THEN {reader.sql()}" for i, reader in moved)
        number = f"IF({TAG} < 0, -1, shiftright({TAG}, 1))"
        return {TAG: tag, HASH: f"CASE {number} {cases} ELSE {HASH} END" if moved else HASH}

    def copies_sql(self) -> str:
        """Spark SQL: an array with tag and address of every reading of a row."""
        cases = []
        for number, readers in enumerate(self.inputs):
            first = f"({TAG} & {FIRST})"
            tags = [f"{2 * r.input}" + (f" + {first}" if i == 0 else "") for i, r in enumerate(readers)]
            its = (
                f"named_struct('t', CAST({t} AS INT), 'a', {r.sql()})"
                for t, r in zip(tags, readers, strict=True)
            )
            if readers:
                cases.append(f"WHEN {number} THEN array({', '.join(its)})")
        as_sent = f"array(named_struct('t', {TAG}, 'a', {HASH}))"
        return f"CASE IF({TAG} < 0, -1, shiftright({TAG}, 1)) {' '.join(cases)} ELSE {as_sent} END"


class SentRows:
    """Rows that are sent for a layout, as long as Spark's query lives."""

    def __init__(self, layout: Layout, wire: Wire) -> None:
        self.layout, self.wire = layout, wire
        self._found: tuple[Sequence[Input], Relabelling | None] = (layout.inputs, Relabelling())

    def read_for(self, layout: Layout, wire: Wire) -> Relabelling | None:
        """How they are read for the layout there is now; None where it needs others."""
        if self._found[0] is not layout.inputs:
            self._found = (layout.inputs, relabelling((self.layout, self.wire), (layout, wire)))
        return self._found[1]


def relabelling(sent: tuple[Layout, Wire], now: tuple[Layout, Wire]) -> Relabelling | None:
    """How rows that are sent for one layout are read as those of another; None where that cannot be."""
    (before, wire), (after, wire_now) = sent, now
    if wire.sequenced != wire_now.sequenced or not {*wire_now.lanes} <= {*wire.lanes}:
        return None
    sources = {source.state: source for source in before.inputs if source.is_sent}
    alike: dict[object, list[Input]] = {}
    for source in sources.values():
        alike.setdefault(rows_wanted(source), []).append(source)
    readers: list[list[ReadAs]] = [[] for _ in before.inputs]
    for target in (target for target in after.inputs if target.is_sent):
        values = {*wire_now.values[target.id]}
        same = [s for s in alike.get(rows_wanted(target), ()) if values <= {*wire.values[s.id]}]
        # Itself, or the one that the fewest read: inputs that are alike get the same rows.
        found = min(same, key=lambda s: (s.state != target.state, len(readers[s.id])), default=None)
        reader = None if found is None else _read(found, target, wire.values[found.id])
        if found is None or reader is None:
            return None
        readers[found.id].append(reader)
    if any(not readers[source.id] for source in sources.values()):
        return None  # rows that nobody wants any more would be counted
    return Relabelling(tuple(map(tuple, readers)))


def _read(source: Input, target: Input, values: Sequence[Value]) -> ReadAs | None:
    if (source.route.keys, source.route.pin) == (target.route.keys, target.route.pin):
        return ReadAs(target.id)
    if target.route.pin is not None:
        return ReadAs(target.id, target.route.pin)
    wanted = [key_hash_column(key) for key in target.route.keys]
    lanes = [value.lane for value in values if len(wanted) == 1 and value.column == wanted[0]]
    return ReadAs(target.id, lanes[0]) if lanes else None


def _read_as(rows: pa.Table, reader: ReadAs, *, is_first: bool) -> pa.Table:
    counting = rows.column(TAG).to_numpy() & (FIRST if is_first else 0)
    at = rows.schema.get_field_index
    rows = rows.set_column(at(TAG), TAG, pa.array((2 * reader.input + counting).astype(np.int32)))
    if reader.address is None:
        return rows
    if isinstance(reader.address, str):
        return rows.set_column(at(HASH), HASH, rows.column(reader.address))
    pinned = pa.array(np.full(rows.num_rows, reader.address, dtype=np.int64))
    return rows.set_column(at(HASH), HASH, pinned)

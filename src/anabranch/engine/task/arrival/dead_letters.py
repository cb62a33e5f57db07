"""Letters: what a dead letter says of a row that reached a slot.

Of such a row only the columns are there that queries take from its stream, and of several copies
each has those of its own input. One copy, the fullest, stands for the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.engine.task.arrival.wire import Value, Wire, decode
from anabranch.operators.rows.expressions import to_json, valid_text
from anabranch.plan.inputs import TIME, Input

NO_TIME = "no usable event time"
"""Why a row is dead that is well-formed and has no time that can be used."""

_COLUMN = re.compile(r"`((?:[^`]|``)+)`")


def letters_of(rows: pa.RecordBatch, values: Sequence[Value], *, time: str) -> pa.ChunkedArray:
    """Wire rows of one input as JSON objects, with the names that the user gave to columns.

    Parameters
    ----------
    time
        Name of the stream's time column.
    """
    decoded = decode(rows, values)
    columns = {name: decoded.column(value.column) for name, value in _named(values).items()}
    if time.lower() not in map(str.lower, columns):
        columns[time] = decoded.column(TIME).cast(pa.timestamp("us"))
    return to_json(pa.RecordBatch.from_pydict(columns))


def opened(letters: pa.Array) -> Iterator[tuple[str, np.ndarray, pa.Array]]:
    """Letters that ingest has written, by reason: which they are, and the rows in them."""
    parts = pc.split_pattern(valid_text(letters), "\n", max_splits=1)
    reasons, rows = pc.list_element(parts, 0), pc.list_element(parts, 1)
    for reason in reasons.unique().to_pylist():
        mine = np.flatnonzero(pc.equal(reasons, reason).to_numpy(zero_copy_only=False))
        yield reason, mine, rows.take(pa.array(mine))


def fullest_first(inputs: Sequence[Input], wire: Wire) -> list[Input]:
    """Inputs of one stream in the order in which their copies may stand for a row.

    Those that refuse a late row come first: if one of them wants it, the row has a letter.
    """
    return sorted(inputs, key=lambda source: (source.stateless, -len(_named(wire.values[source.id]))))


def _named(values: Sequence[Value]) -> dict[str, Value]:
    """Values by the name of their column, or by their SQL if they are computed, without hashes."""
    named: dict[str, Value] = {}
    for value in values:
        if not value.is_hash:
            column = _COLUMN.fullmatch(value.field.sql)
            named.setdefault(column[1].replace("``", "`") if column else value.field.sql, value)
    return named

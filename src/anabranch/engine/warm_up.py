"""Warm-up: queries run once on a few made-up rows, so that what they need is loaded and compiled.

A first batch would otherwise wait for it: a second or two for packages and compiled kernels, and about
eight when the kernels have never been compiled on this machine.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.order import by_hash
from anabranch.plan.logical import Query, Stream

ROWS = 16
"""Of each stream and batch: eight keys with two rows each, whose hashes come in no order."""
CROWDED = 64
"""Rows of a made-up hot key: too many to be moved to their places one by one."""
_BATCHES = 2
"""New rows meet new ones in the first batch, and stored ones in the second."""
_START_US = 1_000_000_000_000_000


def warm_up(streams: Sequence[Stream], queries: Sequence[Query]) -> None:
    """Run every query on made-up rows in a directory that is deleted.

    Never fails: a query that cannot be warmed up is compiled by its first batch.
    """
    for query in queries:
        read = [s for s in streams if s.name in {ref.stream for ref in query.refs}]
        try:
            _run(read, query)
        except Exception:
            logging.getLogger("anabranch").debug("warm-up of query %s failed", query.name, exc_info=True)
    _order_a_hot_key()


def _run(streams: Sequence[Stream], query: Query) -> None:
    with tempfile.TemporaryDirectory(prefix="anabranch-warm-up-") as root:
        run = LocalRun(Path(root), streams, [query])
        try:
            for batch in range(_BATCHES):
                run.batch({stream.name: made_up_rows(stream, batch) for stream in streams})
            run.end_of_input()
        finally:
            run.close()


def _order_a_hot_key() -> None:
    """Many rows of one key whose times are crowded but for one: what few made-up rows do not need."""
    times = np.append(np.arange(CROWDED, 0, -1), 2**40)
    by_hash(np.zeros(len(times), dtype=np.int64), times)


def made_up_rows(stream: Stream, batch: int = 0) -> pa.Table:
    """Rows of a stream whose values are the same in all streams, so that they join.

    >>> from anabranch.plan.logical import Column
    >>> made_up_rows(Stream("s", (Column("k", "string"), Column("ts", "bigint")), "ts")).to_pylist()[0]
    {'k': '0', 'ts': 1000000000000000}
    """
    columns = {c.name: _values(c.type, batch, is_time=c.name == stream.time) for c in stream.columns}
    return pa.table(columns)


def _values(kind: str, batch: int, *, is_time: bool) -> pa.Array:
    wanted = arrow_type(kind)
    numbers: list[Any] = [row % (ROWS // 2) for row in range(ROWS)]
    if is_time or kind.startswith("timestamp"):
        numbers = [_START_US + batch * ROWS + row for row in range(ROWS)]
    if wanted is None:
        return pa.nulls(ROWS)
    if pa.types.is_large_binary(wanted):
        return pa.array([str(n).encode() for n in numbers], wanted)
    if pa.types.is_decimal(wanted):
        return pa.array(numbers, pa.int32()).cast(pa.decimal128(10, 0)).cast(wanted)
    values = pa.array(numbers, pa.int64())
    return values.cast(pa.int32()).cast(wanted) if pa.types.is_date32(wanted) else values.cast(wanted)

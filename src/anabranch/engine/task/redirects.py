"""Rows on the wire that start at another of their stations than the first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.engine.task.wire import TAG, Wire
from anabranch.exchange.station_router import Redirect, StationRouter
from anabranch.plan.inputs import HASH, TIME, Layout, key_hash_column


def redirects_of(layout: Layout, wire: Wire, router: StationRouter, batch: int) -> tuple[Redirect, ...]:
    """The choices of a batch."""
    by_state = {source.state: source for source in layout.inputs}
    found = []
    for source in layout.inputs:
        if len(source.alternatives) > 1 and source.is_sent:
            inputs = [by_state[state] for state in source.alternatives]
            columns = [_column(wire, other.id, key_hash_column(other.route.keys[0])) for other in inputs]
            numbers = [other.id for other in inputs]
            found.append(router.redirect(source.alternatives, numbers, columns, seed=batch))
    return tuple(found)


def redirected(rows: pa.Table, redirects: tuple[Redirect, ...]) -> pa.Table:
    """The rows, some of them with another tag and address."""
    if not redirects or not rows.num_rows:
        return rows
    tags = rows.column(TAG).to_numpy().copy()
    addresses = rows.column(HASH).to_numpy().copy()
    times = rows.column(TIME).to_numpy()
    for redirect in redirects:
        mine = np.flatnonzero(rows.column(TAG).to_numpy() >> 1 == redirect.inputs[0])
        at = pa.array(mine)
        options = [rows.column(column).take(at).to_numpy() for column in redirect.columns]
        chosen = redirect.choose(options, times[mine])
        for number, source in enumerate(redirect.inputs):
            its = chosen == number
            tags[mine[its]] = 2 * source + (tags[mine[its]] & 1)
            addresses[mine[its]] = options[number][its]
    place = rows.schema.get_field_index
    rows = rows.set_column(place(TAG), TAG, pa.array(tags, rows.schema.field(TAG).type))
    return rows.set_column(place(HASH), HASH, pa.array(addresses))


def _column(wire: Wire, source: int, column: str) -> str:
    return next(value.lane for value in wire.values[source] if value.column == column)

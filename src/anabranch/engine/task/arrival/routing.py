"""Routing a step: the routers of its queries, and what they make of the rows on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.engine.task.arrival.wire import TAG, Wire
from anabranch.exchange.address import at_partition
from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, members_of
from anabranch.exchange.coordinated_router import CoordinatedRouter, Routes
from anabranch.exchange.router import COPY, FIRST, Placed, Router, WireRows
from anabranch.exchange.split_router import HotKey, SplitInput, split_routers
from anabranch.exchange.station_router import StationRouter
from anabranch.plan.inputs import HASH, TIME, Input, Layout, key_hash_column


def routers_of(
    layout: Layout,
    wire: Wire,
    batch: int,
    stations: StationRouter,
    diffused: tuple[Mapping[str, AlignedTable], Mapping[str, Routes]],
    hot: tuple[HotKey, ...] = (),
) -> tuple[Router, ...]:
    """The routers of a step.

    Parameters
    ----------
    stations
        Which stations rows take first.
    diffused
        By query with aligned routing its table, and by query with coordinated routing its paths.
    hot
        Keys whose rows are spread.
    """
    split = split_routers(hot, {source.state: _split_input(source, wire) for source in layout.inputs})
    return (*_redirects(layout, wire, batch, stations), *_diffused(layout, *diffused), *split)


def _split_input(source: Input, wire: Wire) -> SplitInput:
    values = wire.values[source.id]
    return SplitInput(source.id, source.state, tuple(v.lane for v in values if v.lane_type == "bigint"))


def _redirects(layout: Layout, wire: Wire, batch: int, stations: StationRouter) -> list[Router]:
    by_state = {source.state: source for source in layout.inputs}
    found: list[Router] = []
    for source in layout.inputs:
        if len(source.alternatives) > 1 and source.is_sent:
            inputs = [by_state[state] for state in source.alternatives]
            columns = [_address(wire, other) for other in inputs]
            numbers = [other.id for other in inputs]
            found.append(stations.redirect(source.alternatives, numbers, columns, seed=batch))
    return found


def _diffused(
    layout: Layout, tables: Mapping[str, AlignedTable], routes: Mapping[str, Routes]
) -> list[Router]:
    found: list[Router] = []
    for routed in layout.queries:
        name, aligned = routed.query.name, None
        if name in tables:
            aligned = AlignedRouter(members_of(routed), tables[name])
        if name in routes:
            found.append(CoordinatedRouter(members_of(routed), routes[name], aligned))
        elif aligned is not None:
            found.append(aligned)
    return found


def routed(rows: pa.Table, routers: Sequence[Router]) -> pa.Table:
    """The rows where their routers place them: some with another tag and address, some several times."""
    if not routers or not rows.num_rows:
        return rows
    tags, addresses = rows.column(TAG).to_numpy(), rows.column(HASH).to_numpy()
    wired = WireRows(
        tags,
        addresses,
        rows.column(TIME).to_numpy(),
        lambda name, which: _numbers(rows.column(name).take(pa.array(which))),
    )
    theirs = {number for router in routers for number in router.inputs}
    others = np.flatnonzero(~np.isin(tags >> 1, list(theirs)))
    placed = [Placed.as_addressed(others, tags[others], addresses[others])]
    placed += [router.placed(wired) for router in routers]
    which = np.concatenate([p.rows for p in placed])
    order = np.argsort(which, kind="stable")
    which = which[order]
    tags = np.concatenate([p.tags for p in placed])[order]
    further = np.flatnonzero(which[1:] == which[:-1]) + 1
    tags[further] = tags[further] & ~FIRST | COPY
    found = [at_partition(p.partitions, np.ascontiguousarray(p.addresses)) for p in placed]
    copies = rows.take(pa.array(which))
    at = rows.schema.get_field_index
    copies = copies.set_column(at(TAG), TAG, pa.array(tags, rows.schema.field(TAG).type))
    return copies.set_column(at(HASH), HASH, pa.array(np.concatenate(found)[order]))


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    found: np.ndarray = (column.fill_null(0) if column.null_count else column).to_numpy()
    return found


def _address(wire: Wire, source: Input) -> str:
    """The column on the wire with the hash of an input's key, which may be the address alone."""
    wanted = key_hash_column(source.route.keys[0])
    return next((value.lane for value in wire.values[source.id] if value.column == wanted), HASH)

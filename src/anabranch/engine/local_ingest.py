"""Ingest without a JVM: the same wire rows as `runtime.ingest`, made by DuckDB and NumPy.

For tests that need thousands of runs. Expressions of one stream are limited to what sqlglot
translates from Spark to DuckDB as they stand; the real ingest is tested on Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
import xxhash

from anabranch.engine.event_time import MAX_TIME_US
from anabranch.engine.local_vectors import taken_apart
from anabranch.engine.task.arrival.dead_letters import NO_TIME, fullest_first
from anabranch.engine.task.arrival.wire import DEAD, TAG, Wire, dead_tag, row_tag, tick_tag
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.order import combine_hashes
from anabranch.plan.inputs import HASH, SEQUENCE, TIME, Input, Layout, is_wide
from anabranch.plan.logical import ARRIVED, Field, Stream

_TEXT_OF_BYTES = re.compile(r"TRY_CAST\((UNHEX\('[0-9A-F]*'\)) AS TEXT\)")


def wire_rows(
    layout: Layout,
    wire: Wire,
    streams: Sequence[Stream],
    tables: Mapping[str, pa.Table],
    *,
    wide_hash_bits: int = 64,
) -> pa.Table:
    """Rows of all streams as a batch's slots receive them.

    Parameters
    ----------
    wide_hash_bits
        Bits of the hash of text, binary and decimal keys; few bits make keys collide.
    """
    pieces = []
    for index, stream in enumerate(streams):
        rows = tables.get(stream.name)
        if rows is not None and rows.num_rows:
            inputs = fullest_first([i for i in layout.inputs if i.stream == stream.name and i.is_sent], wire)
            pieces += _StreamRows(index, stream, inputs, rows, wide_hash_bits).wire(wire)
    return pa.concat_tables(pieces) if pieces else wire_schema(wire).empty_table()


def wire_schema(wire: Wire) -> pa.Schema:
    lanes = [(name, arrow_type(kind)) for name, kind in wire.lanes]
    return pa.schema(
        [
            *((TAG, pa.int32()), (TIME, pa.int64()), (HASH, pa.int64()), *lanes, (DEAD, pa.large_string())),
            *([(SEQUENCE, pa.int64())] if wire.sequenced else []),
        ]
    )


class _StreamRows:
    def __init__(
        self, index: int, stream: Stream, inputs: Sequence[Input], rows: pa.Table, wide_hash_bits: int
    ) -> None:
        self.index = index
        self.inputs = inputs
        self.rows = rows
        rows, self.malformed = taken_apart(rows, stream)
        self.bits = wide_hash_bits
        kind = next(c.type for c in stream.columns if c.name.lower() == stream.time.lower())
        time = f'"{stream.time}"' if kind == "bigint" else f'epoch_us("{stream.time}")'
        self.columns = _evaluate(rows, [time, *_expressions(inputs)])
        self.times = self._column(time).cast(pa.int64())
        within = pc.and_(pc.greater_equal(self.times, 0), pc.less(self.times, MAX_TIME_US))
        valid = pc.fill_null(within, False).to_numpy(zero_copy_only=False)
        self.valid = valid & (self.malformed == "")

    def wire(self, wire: Wire) -> list[pa.Table]:
        times = self.times.fill_null(0).to_numpy(zero_copy_only=False)
        taken = np.zeros(len(times), dtype=bool)
        pieces = []
        for source in self.inputs:
            wanted = self._wanted(source) & self.valid
            tags = np.where(taken, row_tag(source.id, first=False), row_tag(source.id, first=True))
            pieces.append(self._piece(wire, tags, times, self._hash(source, times), wanted, source))
            taken |= wanted
        spread = mix_longs(times)
        ticks = self.valid & ~taken
        for tag, kept in ((tick_tag(self.index), ticks), (dead_tag(self.index), ~self.valid)):
            pieces.append(self._piece(wire, np.full(len(times), tag), times, spread, kept))
        return pieces

    def _piece(
        self,
        wire: Wire,
        tags: Any,
        times: Int64s,
        hashes: Int64s,
        kept: Any,
        source: Input | None = None,
    ) -> pa.Table:
        schema = wire_schema(wire)
        columns = {name: pa.nulls(len(times), schema.field(name).type) for name, _ in wire.lanes}
        for value in wire.values[source.id] if source is not None else ():
            if value.is_hash:
                key = self._key(value.field)
                missing = ~key.is_valid().to_numpy(zero_copy_only=False)
                columns[value.lane] = pa.array(self._hash_key(value.field), mask=missing)
            else:
                columns[value.lane] = _to_lane(self._field(value.field)).cast(schema.field(value.lane).type)
        rows = [{}] * len(times) if self.valid.all() else _times_as_numbers(self.rows).to_pylist()
        told = zip(rows, self.valid, self.malformed, strict=True)
        text = [None if valid else f"{reason or NO_TIME}\n{row}" for row, valid, reason in told]
        columns |= {TAG: pa.array(tags, pa.int32()), TIME: pa.array(times), HASH: pa.array(hashes)}
        columns[DEAD] = pa.array(text, pa.large_string())
        columns[SEQUENCE] = pa.array(np.arange(len(times)))
        return pa.table(columns).select(schema.names).cast(schema).filter(pa.array(kept))

    def _wanted(self, source: Input) -> Any:
        wanted = np.ones(self.rows.num_rows, dtype=bool)
        if source.filter:
            passed = self._column(_duckdb(source.filter)).fill_null(False)
            wanted &= passed.to_numpy(zero_copy_only=False).astype(bool)
        for key in () if source.route.null_safe else (*source.route.keys, *source.route.required):
            wanted &= self._key(key).is_valid().to_numpy(zero_copy_only=False)
        return wanted

    def _hash(self, source: Input, times: Int64s) -> Int64s:
        if source.route.keys:
            return combine_hashes([self._hash_key(f) for f in source.route.keys])
        if source.route.pin is None:
            return mix_longs(times)
        return np.full(len(times), source.route.pin, dtype=np.int64)

    def _hash_key(self, field: Field) -> Int64s:
        key = self._key(field)
        if is_wide(field.type):
            shift = 64 - self.bits
            values = [xxhash.xxh3_64_intdigest(str(v).encode()) >> shift << shift for v in key.to_pylist()]
            return np.array(values, dtype=np.uint64).view(np.int64)
        return mix_longs(key.fill_null(0).to_numpy(zero_copy_only=False).view(np.int64))

    def _key(self, field: Field) -> pa.Array:
        values = _to_lane(self._field(field))
        if pa.types.is_floating(values.type):
            numbers = values.to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
            return pa.array(numbers, mask=~values.is_valid().to_numpy(zero_copy_only=False))
        return values

    def _field(self, field: Field) -> pa.Array:
        kind = arrow_type(field.type)
        return self._column(_duckdb(field.sql)).cast(kind)

    def _column(self, sql: str) -> pa.Array:
        return self.columns[sql]


def _expressions(inputs: Iterable[Input]) -> list[str]:
    found: dict[str, None] = {}
    for source in inputs:
        if source.filter:
            found[_duckdb(source.filter)] = None
        for field in (*source.route.keys, *source.keys, *(f for f in source.fields if f != ARRIVED)):
            found[_duckdb(field.sql)] = None
    return list(found)


def _evaluate(rows: pa.Table, expressions: Sequence[str]) -> dict[str, pa.Array]:
    """Each expression over the rows, all in one query: a query costs more than a small batch does."""
    distinct = list(dict.fromkeys(expressions))
    select = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(distinct))
    table = _connection().from_arrow(rows).project(select).to_arrow_table()
    return {sql: table.column(i).combine_chunks() for i, sql in enumerate(distinct)}


def _times_as_numbers(rows: pa.Table) -> pa.Table:
    """Rows whose every value exists in Python; a datetime ends with the year 9999."""
    fields = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


@cache
def _duckdb(spark_sql: str) -> str:
    translated = sqlglot.transpile(spark_sql, read="spark", write="duckdb")[0]
    # DuckDB would write bytes out: '\x27' for a quote.
    return _TEXT_OF_BYTES.sub(r"decode(\1)", translated)


def _to_lane(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if pa.types.is_floating(kind) else values


def mix_longs(values: Any) -> Int64s:
    """A bijection of 64-bit values, as Spark's xxhash64 is on longs."""
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(values).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (x ^ (x >> np.uint64(31))).view(np.int64)

"""How rows of different streams travel in one DataFrame: typed lanes shared by all inputs.

A row on the wire is `tag, ts, h, <lanes>, dead`. `dead` is set where a row is malformed or has no usable
event time: the reason, a line's end, and the whole row, as JSON or as the text that could not be read.
Lanes are shared by position and type (the input's first long, its second long …), so that the wire is as
wide as the widest input, not their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.inputs import HASH, TIME, Input, field_column, key_hash_column
from anabranch.plan.logical import ARRIVED, Field

TAG = "tag"
DEAD = "dead"

_LONGS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class Value:
    """A column of an input: where it travels and what it is."""

    column: str
    """Its name in blocks."""
    field: Field
    is_hash: bool
    """Whether it is the hash of the field rather than the field."""
    lane: str
    lane_type: str

    @property
    def type(self) -> str:
        return "bigint" if self.is_hash else self.field.type


@dataclass(frozen=True, slots=True)
class Wire:
    values: tuple[tuple[Value, ...], ...]
    """Per input id."""
    lanes: tuple[tuple[str, str], ...]
    """Name and Spark type of every lane."""
    sequenced: bool = False
    """Whether rows carry `sequence`, by which the slots tell the order of their arrival."""


def wire_of(inputs: Sequence[Input], like: tuple[Sequence[Input], Wire] | None = None) -> Wire:
    """Lanes for all inputs.

    Parameters
    ----------
    like
        Inputs of another layout and their lanes: columns that one of them sends of the same rows stay where
        they are, so that its rows can be read for this layout.
    """
    before, wire = like or ((), Wire((), ()))
    sent: dict[object, list[tuple[Value, ...]]] = {}
    for source in before:
        sent.setdefault(rows_wanted(source), []).append(wire.values[source.id])
    itself = {source.state: wire.values[source.id] for source in before}
    lanes = dict(wire.lanes)
    values = tuple(
        _taken_from(source, [itself.get(source.state, ()), *sent.get(rows_wanted(source), ())])
        or _values_of(source, lanes)
        for source in inputs
    )
    used = {value.lane for its in values for value in its}
    kept = tuple((name, kind) for name, kind in lanes.items() if name in used)
    return Wire(values, kept, any(source.sequenced for source in inputs))


def rows_wanted(source: Input) -> tuple[object, ...]:
    """What decides which rows of a stream an input is sent."""
    route = source.route
    needed = None if route.null_safe else frozenset((*route.keys, *route.required))
    return source.stream, source.filter, needed, source.sequenced


def _taken_from(source: Input, sent: Iterable[tuple[Value, ...]]) -> tuple[Value, ...] | None:
    """The columns of an input where another one has them; None where none has all."""
    wanted = [value.column for value in _values_of(source, {})]
    for values in sent:
        there = {value.column: value for value in values}
        if there.keys() >= {*wanted}:
            return tuple(there[column] for column in wanted)
    return None


def row_tag(input_id: int, *, first: bool) -> int:
    """Tag of a row; `first` marks the copy that stands for the row when it is late."""
    return input_id * 2 + first


def tick_tag(stream: int) -> int:
    """Tag of a row that no query wants: it only moves its stream's watermark."""
    return -1 - 2 * stream


def dead_tag(stream: int) -> int:
    """Tag of a row that is malformed or without a usable event time."""
    return -2 - 2 * stream


def decode(batch: pa.RecordBatch, values: Iterable[Value]) -> pa.RecordBatch:
    """Rows of one input as blocks hold them: `h`, `ts` and the input's columns in their own types."""
    columns = {HASH: batch.column(HASH), TIME: batch.column(TIME)}
    for value in values:
        columns[value.column] = _from_lane(batch.column(value.lane), value.type)
    return pa.RecordBatch.from_pydict(columns)


def lane_type_of(spark_type: str) -> str:
    if spark_type in _LONGS:
        return "bigint"
    return "double" if spark_type in ("float", "double") else spark_type


def _values_of(source: Input, lanes: dict[str, str]) -> tuple[Value, ...]:
    used: dict[str, int] = {}

    def lane(spark_type: str) -> tuple[str, str]:
        lane_type = lane_type_of(spark_type)
        used[lane_type] = used.get(lane_type, 0) + 1
        name = f"{lane_type}#{used[lane_type]}"
        lanes[name] = lane_type
        return name, lane_type

    hashes = [Value(key_hash_column(f), f, True, *lane("bigint")) for f in source.keys]
    sent = (f for f in source.fields if f != ARRIVED)
    fields = [Value(field_column(f), f, False, *lane(f.type)) for f in sent]
    return (*hashes, *fields)


def _from_lane(column: pa.Array, spark_type: str) -> pa.Array:
    kind = arrow_type(spark_type)
    if kind is None or column.type == kind:
        return column
    if pa.types.is_boolean(kind):
        return pc.not_equal(column, 0)
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(kind)
    return column.cast(kind)

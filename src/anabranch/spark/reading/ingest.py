"""Ingest: from streaming DataFrames to one DataFrame of wire rows, in Spark SQL on the JVM.

Fixed for the life of a session, because Spark hands a micro-batch over as rows, not as a plan that
could still be optimised: what changes from batch to batch is left to `route` and to the slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.event_time import MAX_TIME_US
from anabranch.engine.task.arrival.dead_letters import NO_TIME, fullest_first
from anabranch.engine.task.arrival.sent_rows import Relabelling
from anabranch.engine.task.arrival.wire import DEAD, TAG, Value, Wire, dead_tag, row_tag, tick_tag
from anabranch.exchange.address import at_partition_sql, partition_sql
from anabranch.exchange.router import COPY, FIRST, Case, Router, WireNames
from anabranch.exchange.slot_map import SlotMap
from anabranch.plan.inputs import HASH, TIME, Input, Layout
from anabranch.plan.logical import Field, Stream
from anabranch.spark.reading.malformed import LETTER
from anabranch.spark.tables.joined_table import JoinedTable

TIME_TYPES = ("timestamp", "timestamp_ntz", "bigint")
"""Types of a stream's time column; a number counts microseconds since 1970, UTC."""
_TIME = "`__anabranch_time`"
_WANTED, _FIRST = "`__anabranch_wanted`", "`__anabranch_first`"
_SLOT = "__anabranch_slot"
_COPY, _PARTITION = "__anabranch_copy", "__anabranch_partition"
_ALWAYS = "TRUE"
_NAMES = WireNames(TAG, HASH, TIME)


def ingest(
    layout: Layout,
    wire: Wire,
    streams: Sequence[Stream],
    frames: Mapping[str, DataFrame],
    tables: Mapping[str, Sequence[JoinedTable]] | None = None,
) -> DataFrame:
    """Union of all streams as wire rows.

    Parameters
    ----------
    tables
        By stream, the tables that its rows meet.
    """
    used = [(i, s) for i, s in enumerate(streams) if any(inp.stream == s.name for inp in layout.inputs)]
    return reduce(
        DataFrame.unionAll,
        [_ingest_stream(i, s, frames[s.name], layout, wire, (tables or {}).get(s.name, ())) for i, s in used],
    )


def relabelled(rows: DataFrame, read_as: Relabelling) -> DataFrame:
    """Rows that were sent for another layout, with the tags and addresses of the one there is now."""
    if not read_as.is_copying:
        return rows.withColumns({name: F.expr(sql) for name, sql in read_as.sql().items()})
    others = [_quote(name) for name in rows.columns if name not in (TAG, HASH)]
    return rows.selectExpr(*others, f"inline({read_as.copies_sql()}) AS ({TAG}, {HASH})")


def cases_of(routers: Sequence[Router]) -> tuple[Case, ...]:
    """What routers do with the rows of ingest."""
    return tuple(case for router in routers for case in router.cases(_NAMES))


def route(rows: DataFrame, cases: Sequence[Case], slot_map: SlotMap | None) -> DataFrame:
    """Send each row of a micro-batch to the slots that work on its partitions, nearly always one.

    Parameters
    ----------
    slot_map
        None if the only slot takes all rows from where they are read.
    """
    rows = _copied(_addressed(rows, cases), cases)
    if slot_map is None:
        return rows.coalesce(1)
    slot = slot_map.sql(HASH, TAG)
    if not slot_map.copies:
        return rows.repartitionById(slot_map.slots, F.expr(slot))
    copied = rows.selectExpr("*", f"explode({slot}) AS {_SLOT}")
    return copied.repartitionById(slot_map.slots, F.col(_SLOT)).drop(_SLOT)


def _addressed(rows: DataFrame, cases: Sequence[Case]) -> DataFrame:
    """The rows, some of them with another tag and address."""
    changed = [case for case in cases if (case.tag, case.address) != (TAG, HASH)]
    if not changed:
        return rows
    tags = " ".join(f"WHEN {case.when} THEN {case.tag}" for case in changed)
    addresses = " ".join(f"WHEN {case.when} THEN {case.address}" for case in changed)
    return rows.withColumns(
        {
            TAG: F.expr(f"CAST(CASE {tags} ELSE {TAG} END AS INT)"),
            HASH: F.expr(f"CASE {addresses} ELSE {HASH} END"),
        }
    )


def _copied(rows: DataFrame, cases: Sequence[Case]) -> DataFrame:
    """The rows, some of them once for each of several partitions."""
    several = [case for case in cases if case.partitions is not None]
    if not several:
        return rows
    chosen = " ".join(f"WHEN {case.when} THEN {case.partitions}" for case in several)
    where = f"CASE {chosen} ELSE array({partition_sql(HASH)}) END"
    copies = rows.selectExpr("*", f"posexplode({where}) AS ({_COPY}, {_PARTITION})")
    return copies.withColumns(
        {
            TAG: F.expr(f"CAST(IF({_COPY} = 0, {TAG}, {TAG} & ~{FIRST} | {COPY}) AS INT)"),
            HASH: F.expr(at_partition_sql(_PARTITION, HASH)),
        }
    ).drop(_COPY, _PARTITION)


def _ingest_stream(
    index: int,
    stream: Stream,
    frame: DataFrame,
    layout: Layout,
    wire: Wire,
    tables: Sequence[JoinedTable] = (),
) -> DataFrame:
    columns = frame.columns
    for table in tables:
        frame = table.joined_with(frame)
    inputs = fullest_first([i for i in layout.inputs if i.stream == stream.name and i.is_sent], wire)
    time = _micros(stream)
    if LETTER in frame.columns:  # nothing in a malformed row is to be relied on
        time = f"IF({_quote(LETTER)} IS NULL, {time}, NULL)"
    timed = frame.selectExpr("*", f"{time} AS {_TIME}")
    dead = f"CASE WHEN NOT {_VALID_TIME} THEN {_letter(columns)} END AS {DEAD}"
    if len(inputs) == 1 and not tables:
        # Few steps and short expressions: Spark goes through all of them anew in every batch.
        return timed.selectExpr(*_choose(index, inputs[0], wire), dead)
    # In columns of their own, so that each test is there once, however many copies ask for it.
    tests = ", ".join(_wanted(source, tables) for source in inputs)
    wanted = timed.selectExpr("*", f"IF({_VALID_TIME}, array({tests}), NULL) AS {_WANTED}")
    first = wanted.selectExpr("*", f"{_first_wanted(tables)} AS {_FIRST}")
    if tables:  # a row stands for itself once, however many rows of a table it meets
        first = first.where(f"{_is_itself(tables)} OR coalesce(array_contains({_WANTED}, TRUE), FALSE)")
    tagged = first.selectExpr("*", f"inline({_copies(index, inputs, wire)})")
    names = [TAG, TIME, HASH, *(name for name, _ in wire.lanes)]
    return tagged.selectExpr(*(f"{_quote('__' + name)} AS {_quote(name)}" for name in names), dead)


def _is_itself(tables: Sequence[JoinedTable]) -> str:
    """Whether a row is the first of those that meeting tables makes of it."""
    return " AND ".join(table.is_first for table in tables)


def _first_wanted(tables: Sequence[JoinedTable]) -> str:
    """The first input that wants a row, 0 for none, -1 for a row that stands for itself elsewhere."""
    position = f"array_position({_WANTED}, TRUE)"
    return f"IF({_is_itself(tables)}, {position}, -1)" if tables else position


def _letter(columns: Sequence[str]) -> str:
    """Why a row is dead, and behind a line's end the row: its columns as JSON, or its text as it came."""
    declared = [c for c in columns if c != LETTER]
    row = f"concat('{NO_TIME}', chr(10), to_json(struct({', '.join(map(_quote, declared))})))"
    return f"coalesce({_quote(LETTER)}, {row})" if LETTER in columns else row


def _choose(index: int, source: Input, wire: Wire) -> list[str]:
    """Select list for a stream with one input: the row itself, a tick or a dead row."""
    row = _wire_row(source, wire, first=None)
    tag, hashed, wanted = row[TAG], row[HASH], _wanted(source)
    if wanted != _ALWAYS:
        tag = f"WHEN {wanted} THEN {tag} ELSE {tick_tag(index)}"
        hashed = f"CASE WHEN {wanted} THEN {hashed} ELSE xxhash64({_TIME}) END"
    else:
        tag = f"ELSE {tag}"
    row |= {TAG: f"CASE WHEN NOT {_VALID_TIME} THEN {dead_tag(index)} {tag} END", HASH: hashed}
    return [f"{sql} AS {_quote(name)}" for name, sql in row.items()]


def _copies(index: int, inputs: Sequence[Input], wire: Wire) -> str:
    """Array of wire rows for a stream with several inputs: one copy for each that wants the row."""
    copies = [
        f"IF(get({_WANTED}, {i}), {_struct(_wire_row(source, wire, first=f'{_FIRST} = {i + 1}'))}, NULL)"
        for i, source in enumerate(inputs)
    ]
    return (
        f"CASE WHEN NOT {_VALID_TIME} THEN array({_struct(_empty_row(dead_tag(index), wire))}) "
        f"WHEN {_FIRST} = 0 THEN array({_struct(_empty_row(tick_tag(index), wire))}) "
        f"ELSE array_compact(array({', '.join(copies)})) END"
    )


def _wire_row(source: Input, wire: Wire, *, first: str | None) -> dict[str, str]:
    """A row for an input; `first` tells in SQL whether no other input has it already, None that none has."""
    values = {v.lane: v for v in wire.values[source.id]}
    tag = str(row_tag(source.id, first=True))
    if first is not None:
        tag = f"IF({first}, {tag}, {row_tag(source.id, first=False)})"
    lanes = {
        name: _to_lane(values[name]) if name in values else f"CAST(NULL AS {lane_type})"
        for name, lane_type in wire.lanes
    }
    return {TAG: tag, TIME: f"coalesce({_TIME}, 0)", HASH: _routing_hash(source), **lanes}


def _empty_row(tag: int, wire: Wire) -> dict[str, str]:
    nulls = {name: f"CAST(NULL AS {lane_type})" for name, lane_type in wire.lanes}
    return {TAG: str(tag), TIME: f"coalesce({_TIME}, 0)", HASH: f"xxhash64({_TIME})", **nulls}


def _struct(row: Mapping[str, str]) -> str:
    parts = [f"'__{name}', {sql}" for name, sql in row.items()]
    return f"named_struct({', '.join(parts)})"


_VALID_TIME = f"({_TIME} IS NOT NULL AND {_TIME} >= 0 AND {_TIME} < {MAX_TIME_US})"


def _wanted(source: Input, tables: Sequence[JoinedTable] = ()) -> str:
    """Whether an input wants a row: it passes the filter, and no routing key is NULL.

    Of the rows that meeting a table makes of one, an input that does not ask for the table wants the first.
    """
    others = [table.is_first for table in tables if not table.join.is_in(source.filter)]
    tests = [f"coalesce({source.filter}, FALSE)"] if source.filter else []
    if not source.route.null_safe:
        needed = dict.fromkeys((*source.route.keys, *source.route.required))
        tests += [f"{_key(f)} IS NOT NULL" for f in needed]
    return f"({' AND '.join([*others, *tests])})" if others or tests else _ALWAYS


def _routing_hash(source: Input) -> str:
    if source.route.keys:
        keys = [_key(f) for f in source.route.keys]
        if source.route.null_safe and len(keys) > 1:  # Spark's hash skips NULL: (1, NULL) as (NULL, 1)
            keys += [f"{key} IS NULL" for key in keys]
        return f"xxhash64({', '.join(keys)})"
    return f"xxhash64({_TIME})" if source.route.pin is None else f"CAST({source.route.pin} AS BIGINT)"


def _key(field: Field) -> str:
    """A key in the form that is hashed: -0.0 equals 0.0, and one NaN stands for all."""
    sql = f"CAST({field.sql} AS {field.type})"
    return f"({sql} + 0.0D)" if field.type == "double" else sql


def _to_lane(value: Value) -> str:
    if value.is_hash:
        key = _key(value.field)
        return f"IF({key} IS NULL, NULL, xxhash64({key}))"
    sql = f"CAST({value.field.sql} AS {value.type})"
    if value.type == "date":
        return f"CAST(unix_date({sql}) AS BIGINT)"
    if value.type == "timestamp":
        return f"unix_micros({sql})"
    return sql if value.type == value.lane_type else f"CAST({sql} AS {value.lane_type})"


def _micros(stream: Stream) -> str:
    """Event time in microseconds since 1970, UTC; NULL where it cannot be told."""
    kind = next(c.type for c in stream.columns if c.name.lower() == stream.time.lower())
    time = _quote(stream.time)
    if kind == "timestamp_ntz":
        # timestampdiff would go by way of the session's zone, where an hour a year does not exist.
        days = f"try_multiply(CAST(unix_date(CAST({time} AS DATE)) AS BIGINT), 86400000000L)"
        seconds = f"(hour({time}) * 3600 + minute({time}) * 60 + extract(SECOND FROM {time}))"
        return f"try_add({days}, CAST({seconds} * 1000000 AS BIGINT))"
    return time if kind == "bigint" else f"unix_micros({time})"


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

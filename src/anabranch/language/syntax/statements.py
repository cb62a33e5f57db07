"""What the parser hands to the binder: the statements of a flow file, not yet checked."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from anabranch.plan.logical import Connector


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`CREATE STREAM name (…) FROM format 'path' … FORMAT … AS SELECT … TIME column LATENESS n unit`."""

    name: exp.Identifier
    columns: tuple[tuple[exp.Identifier, exp.DataType], ...]
    source: Connector
    time: exp.Identifier
    lateness_us: int
    payload: Connector | None = None
    """FORMAT of the bytes in the source's column `value`."""
    payload_start: int = 0
    select: exp.Expr | None = None
    """The SELECT that Spark runs over the source."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`CREATE TABLE name (…) FROM format 'path' OPTIONS (…) REFRESH EVERY n unit`."""

    name: exp.Identifier
    columns: tuple[tuple[exp.Identifier, exp.DataType], ...]
    source: Connector
    refresh_us: int | None


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """`CREATE QUERY name INTO format 'path' OPTIONS (…) AS SELECT …`; `text` is the SELECT as written."""

    name: exp.Identifier
    sink: Connector
    select: exp.Expr
    text: str


@dataclass(frozen=True, slots=True)
class SetOption:
    """`SET key = value`; `start` is where the key begins."""

    key: str
    value: str
    start: int


Statement = CreateStream | CreateTable | CreateQuery | SetOption

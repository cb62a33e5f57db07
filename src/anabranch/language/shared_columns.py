"""Queries that write to one sink: which do, and whether they have the columns for it."""

from __future__ import annotations

import os.path
from collections.abc import Hashable

from anabranch.plan.logical import Connector, Query

QUERY = "query"
"""The column that names the query of a row, where several share a sink."""
_SERVERS = "kafka.bootstrap.servers"


def same_sink(connector: Connector | None) -> Hashable | None:
    """What two connectors have in common that write to one place; None for one that has no place.

    >>> same_sink(Connector("parquet", "out/a")) == same_sink(Connector("PARQUET", "out/./a"))
    True
    """
    if connector is None or connector.path is None:
        return None
    servers = [value for name, value in connector.options if name.lower() == _SERVERS]
    return connector.format.lower(), os.path.normpath(connector.path), tuple(servers)


def not_alike(first: Query, query: Query) -> tuple[str, str] | None:
    """Why a query cannot share the sink of another one, and what would be right; None if it can."""
    if any(output.name.lower() == QUERY for output in query.outputs):
        return f"shares its sink with others, which adds a column {QUERY!r}", "give its own another name"
    columns = [(output.name, output.type) for output in first.outputs]
    if [(output.name, output.type) for output in query.outputs] == columns:
        return None
    told = ", ".join(f"{name} {kind}" for name, kind in columns)
    return (
        f"shares its sink with {first.name!r}, which has the columns {told}",
        "select the same, or give it a sink of its own",
    )

"""Malformed rows: text that Spark cannot read as the declared columns is kept, with the reason.

Spark's readers of JSON and CSV go on after a record they cannot read (mode PERMISSIVE): the columns that
it spoils are NULL, and the text of the record is in one more column, if the schema has it. Without that
column a key of the wrong type would be a NULL like any other. What Spark calls malformed:

======  ==========================================================================================
json    a line that is no JSON object; a value that is not of its column's type, in one or more columns
csv     a value that is not of its column's type; more or fewer values than columns
======  ==========================================================================================

A field that is missing in a JSON object, and nothing between two commas, are NULL and no fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.plan.logical import Connector, Stream

RAW = "__anabranch_raw"
"""Column with the text of a malformed record; NULL in all others."""
NAMED = ("json", "csv")
"""Formats whose readers tell."""
OPTION = "columnNameOfCorruptRecord"
_OWN = "_corrupt_record"
"""Spark's name of the column: whoever declares it wants to see to malformed records himself."""


def keeps_raw(stream: Stream) -> bool:
    """Whether malformed records of a stream are kept, and not dropped, fatal, or seen to by the user."""
    if stream.source is None or stream.source.format.lower() not in NAMED:
        return False
    options = {key.lower(): value.lower() for key, value in stream.source.options}
    declared = {column.name.lower() for column in stream.columns}
    permissive = options.get("mode", "permissive") == "permissive"
    return permissive and OPTION.lower() not in options and _OWN not in declared


def reason(source: Connector, columns: Sequence[str]) -> str:
    """Spark SQL that says why a record is malformed, in a row where `RAW` is not NULL."""
    nulls = ", ".join(f"IF(`{c}` IS NULL, '{c}', NULL)" for c in columns if not set("'\\`") & set(c))
    kind, lost, other = source.format.lower(), f"array_compact(array({nulls}))", "more values than columns"
    if kind == "json":
        # The record's fields as text: those that are there, and are NULL after reading, were not readable.
        lost = f"array_intersect({lost}, map_keys(from_json(`{RAW}`, 'map<string,string>')))"
        other = "no JSON object"
    why = f"nullif(array_join({lost}, ', '), '') || ' cannot be read as declared'"
    return f"concat('malformed {kind}: ', coalesce({why}, '{other}'))"

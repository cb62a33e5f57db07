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

from collections.abc import Mapping

from anabranch.plan.logical import Stream

RAW = "__anabranch_raw"
"""Column with the text of a malformed record; NULL in all others."""
LETTER = "__anabranch_letter"
"""Column with the reason and the text of a malformed row, a line's end between them; NULL in all others."""
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
    columns = stream.columns if stream.prepared is None else stream.prepared.declared
    declared = {column.name.lower() for column in columns}
    permissive = options.get("mode", "permissive") == "permissive"
    return permissive and OPTION.lower() not in options and _OWN not in declared


def letter(kind: str, columns: Mapping[str, str], *, raw: str) -> str:
    """Spark SQL of a malformed record's reason and text, NULL for a record that could be read.

    Parameters
    ----------
    columns
        Spark SQL of what was read, by the column's name.
    raw
        Spark SQL of the record's text, NULL unless it is malformed.
    """
    nulls = ", ".join(
        f"IF({sql} IS NULL, '{c}', NULL)" for c, sql in columns.items() if not set("'\\`") & set(c)
    )
    lost, other = f"array_compact(array({nulls}))", "more values than columns"
    if kind == "json":
        # The record's fields as text: those that are there, and are NULL after reading, were not readable.
        lost = f"array_intersect({lost}, map_keys(from_json({raw}, 'map<string,string>')))"
        other = "no JSON object"
    why = f"nullif(array_join({lost}, ', '), '') || ' cannot be read as declared'"
    reason = f"concat('malformed {kind}: ', coalesce({why}, '{other}'))"
    return f"IF({raw} IS NULL, NULL, concat({reason}, chr(10), {raw}))"

"""Patterns of LIKE, checked and brought to one escape character."""

from __future__ import annotations

from anabranch.language.expressions.types import Refusal


def like_pattern(pattern: str, escape: str) -> str:
    """Rewrite a pattern so that the backslash escapes, as Spark does by default.

    >>> like_pattern("50#%%", "#")
    '50\\\\%%'
    """
    if len(escape) != 1 or escape in "%_":
        raise Refusal("ESCAPE takes one character other than % and _", "write ESCAPE '#'")
    out, position = [], 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in (escape, "%", "_"):
                # Spark stops the query on such a row; DuckDB matches something else.
                raise Refusal(
                    f"{escape} in a LIKE pattern must precede %, _ or {escape}", f"double it: {escape * 2}"
                )
            literal = pattern[position]
            out.append("\\" + literal if literal in "%_\\" else literal)
        else:
            out.append("\\\\" if sign == "\\" else sign)
        position += 1
    return "".join(out)

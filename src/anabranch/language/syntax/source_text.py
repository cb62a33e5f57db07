"""The user's text and the way back from a syntax node to a line and a column of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import QueryError


@dataclass(frozen=True, slots=True)
class SourceText:
    """Text of a query or flow file.

    Examples
    --------
    >>> error = SourceText("SELECT a\\nFROM b").error_at(14, "unknown stream 'b'", "define it")
    >>> error.line, error.column
    (2, 6)
    """

    text: str
    path: str | None = None

    def error(self, node: exp.Expr, message: str, suggestion: str) -> QueryError:
        """Build the error that points at `node`."""
        return self.error_at(start_of(node), message, suggestion)

    def error_at_keyword(self, node: exp.Expr, keyword: str, message: str, suggestion: str) -> QueryError:
        """Build the error that points at the keyword that leads to `node`, which no node remembers."""
        start = start_of(node)
        pattern = r"\b" + r"\s+".join(map(re.escape, keyword.split())) + r"\b"
        found = [
            match.start() for match in re.finditer(pattern, self.text[: start + len(keyword)], re.IGNORECASE)
        ]
        return self.error_at(found[-1] if found and keyword else start, message, suggestion)

    def error_at(self, start: int, message: str, suggestion: str) -> QueryError:
        """Build the error that points at the character with offset `start`."""
        before = self.text[:start]
        return QueryError(
            message,
            line=before.count("\n") + 1,
            column=start - (before.rfind("\n") + 1) + 1,
            suggestion=suggestion,
            source=self.text,
            path=self.path,
        )

    def word_at(self, start: int) -> str:
        """The word or sign that begins at `start`, for messages."""
        rest = self.text[start:]
        length = 0
        while length < len(rest) and (rest[length].isalnum() or rest[length] == "_"):
            length += 1
        return rest[: max(length, 1)].strip()


def start_of(node: exp.Expr) -> int:
    """Offset of the first character of `node`: of its earliest part that knows where it was read."""
    current: exp.Expr | None = node
    while current is not None:
        starts = [part.meta["start"] for part in current.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        current = current.parent
    return 0


def unclosed(text: str) -> tuple[int, str, str]:
    """Where a quote or comment begins that never ends, what it is, and what would close it."""
    names = {"'": "this text", '"': "this text", "`": "this name"}
    position = 0
    while position < len(text):
        start, sign = position, text[position]
        if text.startswith("--", position):
            position = text.find("\n", position)
        elif text.startswith("/*", position):
            position = text.find("*/", position + 2)
            if position < 0:
                return start, "this comment", "*/"
        elif sign in names:
            position = _closing(text, position)
            if position < 0:
                return start, names[sign], sign
        if position < 0:
            break
        position += 1
    return max(len(text) - 1, 0), "something", "what is missing at the end"


def _closing(text: str, start: int) -> int:
    quote, position = text[start], start + 1
    while position < len(text):
        if text[position] == "\\" and quote != "`":
            position += 1
        elif text[position] == quote:
            return position
        position += 1
    return -1

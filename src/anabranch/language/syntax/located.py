"""What the parser stumbles over, told with its place and in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot.errors import ParseError, TokenError

from anabranch.errors import QueryError
from anabranch.language.syntax.source_text import SourceText, unclosed


@contextmanager
def located(source: SourceText) -> Iterator[None]:
    """Turn errors of the parser into QueryErrors that point into the text."""
    try:
        yield
    except TokenError as error:
        raise _unreadable(source) from error
    except ParseError as error:
        raise _refused(source, error) from error
    except RecursionError as error:
        raise source.error_at(0, "the text is nested too deeply", "use fewer parentheses") from error
    except ArithmeticError as error:  # sqlglot makes numbers of what only begins like one, such as ..1.5BD
        start = _number_at(source.text)
        raise source.error_at(start, "this is not a number", "write it as in 1.5") from error


def _number_at(text: str) -> int:
    """Where a number with letters behind it begins, if there is one."""
    found = re.search(r"\.*\b[\d.][\w.]*(?:BD|bd|Bd|bD)\b|\.[\d.]+\w*", text)
    return found.start() if found else 0


def _unreadable(source: SourceText) -> QueryError:
    start, what, close = unclosed(source.text)
    return source.error_at(start, f"{what} is not closed", f"add {close}")


def _refused(source: SourceText, error: ParseError) -> QueryError:
    details = error.errors[0] if error.errors else {}
    start = details.get("start", 0)
    message = str(details.get("description") or "this cannot be read")
    known = message.startswith("expected") or " is not " in message
    if not known:
        message = (
            f"unexpected {source.word_at(start)!r}" if source.word_at(start) else "unexpected end of text"
        )
    return source.error_at(start, message[0].lower() + message[1:], _suggestion(message))


def _suggestion(message: str) -> str:
    _, found, example = message.partition("as in ")
    return (
        f"write {example}"
        if found
        else "check the words just before this place; see `anabranch docs language`"
    )

"""Whole numbers as users write them."""

from __future__ import annotations

MOST_DIGITS = 19
"""As many as the largest BIGINT has."""


def whole_number(text: str) -> int | None:
    """Value of plain digits; None when it is anything else, or longer than a BIGINT.

    Python reads a few thousand digits and then raises, so they are counted first.

    >>> whole_number("0042"), whole_number("9" * 5_000), whole_number("-1")
    (42, None, None)
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= MOST_DIGITS else None

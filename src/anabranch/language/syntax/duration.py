"""Lengths of time as users write them, in microseconds."""

from __future__ import annotations

from anabranch.language.syntax.whole_number import whole_number

UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
"""Months and years are missing on purpose: their length depends on where they start."""

DURATION_HINT = "as in 10 MINUTES; units run from MICROSECONDS to WEEKS"


def duration_us(number: str, unit: str) -> int | None:
    """Microseconds in `number unit`, or None when that is no length of time.

    >>> duration_us("10", "minutes")
    600000000
    >>> duration_us("1", "MONTH")
    """
    word = unit.upper()
    size = UNITS_US.get(word) or UNITS_US.get(word.removesuffix("S"))
    count = whole_number(number)
    return None if size is None or count is None else count * size


def duration_text(micros: int) -> str:
    """A length of time as a user would write it, exact, and rounded up where it has many digits.

    >>> duration_text(0), duration_text(1), duration_text(90_000_000), duration_text(3_600_000_000)
    ('0 SECONDS', '1 MICROSECOND', '90 SECONDS', '1 HOUR')
    >>> duration_text(86_399_999_999)
    '1440 MINUTES'
    """
    if not micros:
        return "0 SECONDS"
    sizes = sorted(UNITS_US.items(), key=lambda unit: -unit[1])
    for word, size in sizes:
        # At most half a per cent more than it is.
        if micros % size == 0 or micros >= 200 * size:
            number = -(-micros // size)
            return f"{number} {word}{'' if number == 1 else 'S'}"
    raise AssertionError("every length is a number of microseconds")

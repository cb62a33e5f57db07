"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.adapt import events


def count(number: float) -> str:
    """A count, exact while it is short.

    >>> count(999), count(54321), count(2_503_661), count(12_300_000_000)
    ('999', '54,321', '2.50 M', '12.3 G')
    """
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{_three_digits(number / size)} {unit}"
    return f"{number:,.0f}"


def size(octets: float) -> str:
    """A number of bytes.

    >>> size(512), size(65_536), size(1_610_612_736)
    ('512 B', '64.0 KiB', '1.50 GiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while octets >= 1024 and power < len(units) - 1:
        octets, power = octets / 1024, power + 1
    return f"{octets:.0f} B" if power == 0 else f"{_three_digits(octets)} {units[power]}"


def duration(seconds: float) -> str:
    """A length of time.

    >>> duration(0.0123), duration(0.7), duration(75), duration(90_000)
    ('12 ms', '700 ms', '1 min 15 s', '25 h 0 min')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 48 * 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds / 86400:,.0f} days"


def instant(micros: int | None) -> str:
    """An event time in UTC, or a dash.

    >>> instant(1_767_225_600_123_456), instant(None)
    ('2026-01-01 00:00:00.123', '–')
    """
    return "–" if micros is None else events.instant(micros)


def spark_line(values: Sequence[float]) -> str:
    """A row of small bars, the largest value filling its cell.

    >>> spark_line([1, 4, 8])
    '▁▄█'
    """
    top = max(values, default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[max(0, min(7, round(8 * v / top) - 1))] if top else "▁" for v in values)


def bar(share: float, width: int) -> str:
    """A bar of `width` cells for a share from 0 to 1.

    >>> bar(0.5, 4)
    '██  '
    """
    filled = round(max(0.0, min(1.0, share)) * width)
    return "█" * filled + " " * (width - filled)


def _three_digits(number: float) -> str:
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f}"

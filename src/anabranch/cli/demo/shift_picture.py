"""The picture of the demo: what the busiest site takes, batch by batch, as started and adapting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 960, 420, 70, 60, 100, 60
LABEL = 16
"""Height of a line's name."""
_COLOURS = ("#c0392b", "#1f7a4d")


def shift_picture(
    path: Path, lines: Mapping[str, Sequence[float]], marks: Mapping[int, str], *, title: str, first: int = 0
) -> None:
    """Write an SVG file that any browser shows.

    Parameters
    ----------
    lines
        Milliseconds by batch, of every run.
    marks
        What happened at a batch.
    first
        Number of the first batch of all lines.
    """
    batches = max(len(line) for line in lines.values())
    top = _round_top(max(max(line) for line in lines.values()))
    parts = [_text(LEFT, 28, title, size=18), *_axes(batches, top, first)]
    for number, (batch, what) in enumerate(sorted(marks.items())):
        x = _x(batch - first, batches)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" class="mark"/>')
        parts.append(_text(x + 4, TOP + 14 + 16 * number, what, size=12))
    names = _apart({name: _y(line[-1], top) for name, line in lines.items()})
    for (name, line), colour in zip(lines.items(), _COLOURS, strict=True):
        points = " ".join(f"{_x(batch, batches)},{_y(ms, top)}" for batch, ms in enumerate(line))
        parts.append(f'<polyline points="{points}" stroke="{colour}" class="line"/>')
        parts.append(_text(WIDTH - RIGHT + 8, names[name] + 4, name, size=13, colour=colour))
    path.write_text(_SVG.format(width=WIDTH, height=HEIGHT, body="\n".join(parts)), encoding="utf-8")


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">
<style>.line {{ fill: none; stroke-width: 2.5 }} .axis {{ stroke: #444 }}
.mark {{ stroke: #888; stroke-dasharray: 5 4 }}</style>
<rect width="100%" height="100%" fill="white"/>
{body}
</svg>
"""


def _round_top(most: float) -> float:
    """The end of an axis in four equal parts with short numbers: 4, 8, 20 or 40 times a power of ten.

    >>> [_round_top(most) for most in (0.0, 3.0, 13.0, 215.0)]
    [4.0, 4.0, 20.0, 400.0]
    """
    top = 4.0
    while top < most:
        top *= 2.5 if f"{top:.0f}"[0] == "8" else 2
    return top


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Where names stand at the ends of their lines, each below the one before.

    >>> _apart({"low": 300.0, "high": 295.0})
    {'high': 295.0, 'low': 311.0}
    """
    placed: dict[str, float] = {}
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = max(height, max(placed.values(), default=-LABEL) + LABEL)
    return placed


def _axes(batches: int, top: float, first: int) -> list[str]:
    floor = HEIGHT - BOTTOM
    parts = [
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" class="axis"/>',
        f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{floor}" class="axis"/>',
        _text(WIDTH // 2 - 20, HEIGHT - 14, "batch", size=13),
    ]
    for batch in range(0, batches, max(1, batches // 8)):
        parts.append(_text(_x(batch, batches) - 5, floor + 18, str(batch + first), size=12))
    for quarter in range(5):
        value = top * quarter / 4
        parts.append(_text(8, _y(value, top) + 4, f"{value:.0f} ms", size=12))
    return parts


def _x(batch: int, batches: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * batch / max(1, batches - 1), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)


def _text(x: float, y: float, text: str, *, size: int, colour: str = "#222") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(text)}</text>'

"""The picture of the demo: what the busiest site takes, batch by batch, as started and adapting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 420, 70, 60, 20, 60
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
    top = max(max(line) for line in lines.values()) * 1.1 or 1.0
    parts = [_text(LEFT, 28, title, size=18), *_axes(batches, top, first)]
    for number, (batch, what) in enumerate(sorted(marks.items())):
        x = _x(batch - first, batches)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" class="mark"/>')
        parts.append(_text(x + 4, TOP + 14 + 16 * number, what, size=12))
    for (name, line), colour in zip(lines.items(), _COLOURS, strict=True):
        points = " ".join(f"{_x(batch, batches)},{_y(ms, top)}" for batch, ms in enumerate(line))
        parts.append(f'<polyline points="{points}" stroke="{colour}" class="line"/>')
        parts.append(_text(WIDTH - 190, _y(line[-1], top) - 8, name, size=13, colour=colour))
    path.write_text(_SVG.format(width=WIDTH, height=HEIGHT, body="\n".join(parts)), encoding="utf-8")


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">
<style>.line {{ fill: none; stroke-width: 2.5 }} .axis {{ stroke: #444 }}
.mark {{ stroke: #888; stroke-dasharray: 5 4 }}</style>
<rect width="100%" height="100%" fill="white"/>
{body}
</svg>
"""


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

"""Lines, or bars where x has names. Matplotlib is an extra (`anabranch[bench]`), imported when needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.reproduce.report.titles import TITLES


@dataclass(frozen=True, slots=True)
class Chart:
    """What to draw.

    Attributes
    ----------
    x
        Numbers; or names, which are drawn as groups of bars.
    lines
        Values of y by label.
    flat
        Horizontal reference lines by label.
    """

    x_label: str
    y_label: str
    x: Sequence[float] | Sequence[str]
    lines: Mapping[str, Sequence[float]]
    flat: Mapping[str, float]
    log_x: bool = False
    log_y: bool = False


STYLES = ("-", "--", "-.", ":")
MANY = 10_000
"""From here on, values on the y axis are told in thousands and millions."""


def draw(chart: Chart, path: Path) -> Path | None:
    """Write the chart as PNG, and its figures beside it. None, and no picture, without Matplotlib."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(_to_json(chart), encoding="utf-8")
    return _picture(chart, path)


def redraw(folder: Path) -> list[Path]:
    """Draw all pictures of a folder anew, from the figures beside them."""
    drawn = []
    for kept in sorted(folder.glob("*.json")):
        chart = Chart(**json.loads(kept.read_text(encoding="utf-8")))
        drawn.append(_picture(chart, kept.with_suffix(".png")))
    return [path for path in drawn if path is not None]


def _to_json(chart: Chart) -> str:
    values = asdict(chart) | {"x": list(chart.x), "lines": {k: list(v) for k, v in chart.lines.items()}}
    return json.dumps(values, default=float)


def _picture(chart: Chart, path: Path) -> Path | None:
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    figure, axes = pyplot.subplots(figsize=(8.0, 4.6), dpi=120)
    axes.set_title(TITLES.get(path.stem, path.stem), fontsize=11, loc="left")
    (_bars if _has_names(chart) else _lines)(axes, chart)
    for label, value in chart.flat.items():
        axes.axhline(value, color="grey", lw=0.8, ls=":")
        axes.annotate(
            label, (0.99, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
        )
    if chart.log_x:
        axes.set_xscale("symlog" if min(map(float, chart.x)) <= 0 else "log", base=2)
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(chart.x_label, fontsize=10)
    axes.set_ylabel(chart.y_label, fontsize=10)
    axes.tick_params(labelsize=9)
    if not chart.log_y and axes.get_ylim()[1] >= MANY:
        axes.yaxis.set_major_formatter(EngFormatter())
    axes.legend(fontsize=9, frameon=False)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path


def _has_names(chart: Chart) -> bool:
    return any(isinstance(x, str) for x in chart.x)


def _lines(axes: Any, chart: Chart) -> None:
    for i, (label, values) in enumerate(chart.lines.items()):
        marker = "o" if len(values) < 20 else None
        axes.plot(chart.x, values, STYLES[i % len(STYLES)], label=label, marker=marker, ms=3, lw=1.6)


def _bars(axes: Any, chart: Chart) -> None:
    """A group for each name of x, and in it a bar for each label."""
    width = 0.8 / len(chart.lines)
    for i, (label, values) in enumerate(chart.lines.items()):
        at = [n + (i - (len(chart.lines) - 1) / 2) * width for n in range(len(chart.x))]
        axes.bar(at, values, width=0.9 * width, label=label)
    axes.set_xticks(range(len(chart.x)), list(chart.x))

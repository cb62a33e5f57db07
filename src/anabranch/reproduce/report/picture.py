"""Small line charts. Matplotlib is an extra (`anabranch[bench]`) and is imported when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.reproduce.report.titles import TITLES


@dataclass(frozen=True, slots=True)
class Chart:
    """What to draw.

    Attributes
    ----------
    lines
        Values of y by label.
    flat
        Horizontal reference lines by label.
    """

    x_label: str
    y_label: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    flat: Mapping[str, float]
    log_x: bool = False
    log_y: bool = False


STYLES = ("-", "--", "-.", ":")


def draw(chart: Chart, path: Path) -> Path | None:
    """Write the chart as PNG. None, and no picture, without Matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 4.6), dpi=120)
    axes.set_title(TITLES.get(path.stem, path.stem), fontsize=11, loc="left")
    for i, (label, values) in enumerate(chart.lines.items()):
        marker = "o" if len(values) < 20 else None
        axes.plot(chart.x, values, STYLES[i % len(STYLES)], label=label, marker=marker, ms=3, lw=1.6)
    for label, value in chart.flat.items():
        axes.axhline(value, color="grey", lw=0.8, ls=":")
        axes.annotate(
            label, (0.99, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
        )
    if chart.log_x:
        axes.set_xscale("symlog" if min(chart.x) <= 0 else "log", base=2)
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(chart.x_label, fontsize=10)
    axes.set_ylabel(chart.y_label, fontsize=10)
    axes.tick_params(labelsize=9)
    axes.legend(fontsize=9, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    return path

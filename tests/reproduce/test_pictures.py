"""Pictures of experiments: a title that says what is seen, names where x has names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from anabranch.reproduce.report import titles
from anabranch.reproduce.report.picture import Chart, draw, redraw

SOURCES = sorted(Path(titles.__file__).parents[1].rglob("*.py"))


def test_every_picture_that_is_drawn_under_a_fixed_name_has_a_title() -> None:
    drawn = {name for file in SOURCES for name in re.findall(r'"([\w-]+)\.png"', file.read_text("utf-8"))}
    assert len(drawn) > 20
    assert drawn <= titles.TITLES.keys()


@pytest.mark.parametrize("x", [(0.0, 1.0), ("one order", "another")], ids=["numbers", "names"])
def test_numbers_are_lines_and_names_are_bars(x: tuple[float, ...] | tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    seen: list[tuple[int, int]] = []
    close = pyplot.close

    def look(figure: object) -> None:
        (axes,) = figure.axes  # type: ignore[attr-defined]
        seen.append((len(axes.patches), len(axes.lines)))
        close(figure)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pyplot, "close", look)
        draw(Chart("x", "y", x, {"a": (1, 2), "b": (2, 1)}, {}), tmp_path / "p.png")
    assert seen == [(4, 0) if isinstance(x[0], str) else (0, 2)]
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_a_picture_is_drawn_anew_from_its_kept_figures_without_a_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    chart = Chart(
        "x", "y", range(3), {"line": np.array([1.0, 2.0, 4.0])}, {"bound": np.float64(3)}, log_y=True
    )
    path = draw(chart, tmp_path / "flux-fig7.png")
    assert path is not None
    first = path.read_bytes()
    path.unlink()
    assert redraw(tmp_path) == [path]
    assert path.read_bytes() == first

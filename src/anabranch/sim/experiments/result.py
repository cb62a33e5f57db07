"""What an experiment hands back: a table, a picture, and whether its claim holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings.

    >>> print(Table(("sites", "rows/s"), ((1, 21000.0), (2, 42000.0))).to_markdown())
    | sites | rows/s |
    |---|---|
    | 1 | 21,000 |
    | 2 | 42,000 |
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_markdown(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns)]
        text = [f"| {' | '.join(lines[0])} |", f"|{'|'.join(lines[1])}|"]
        return "\n".join([*text, *(f"| {' | '.join(_shown(c) for c in row)} |" for row in self.rows)])


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return str(cell)


@dataclass(frozen=True, slots=True)
class Check:
    """A sentence of the claim, and the numbers that decide it."""

    claim: str
    holds: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'FAIL'} {self.claim}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Result:
    """An experiment that has run."""

    name: str
    title: str
    table: Table
    checks: tuple[Check, ...]
    figure: Path | None = None

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.checks)

    def to_text(self) -> str:
        """Title, table and checks, as Markdown."""
        checks = "\n".join(f"- {c}" for c in self.checks)
        return f"## {self.name}: {self.title}\n\n{self.table.to_markdown()}\n\n{checks}\n"


def at_least(claim: str, value: float, bound: float, *, unit: str = "") -> Check:
    return Check(claim, value >= bound, f"{value:.3g}{unit}, at least {bound:.3g}{unit}")


def at_most(claim: str, value: float, bound: float, *, unit: str = "") -> Check:
    return Check(claim, value <= bound, f"{value:.3g}{unit}, at most {bound:.3g}{unit}")


def between(claim: str, value: float, low: float, high: float) -> Check:
    return Check(claim, low <= value <= high, f"{value:.3g}, from {low:.3g} to {high:.3g}")


def columns_of(series: Sequence[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Turn columns into rows."""
    return tuple(zip(*series, strict=True))

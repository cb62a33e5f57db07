"""What an experiment hands back: a table, a picture, and whether its claim holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """The same quantity under several seeds, in their order. The median decides; the rest shows how surely.

    >>> str(Spread.of([0.62, 0.5, 0.58]))
    '0.58 (0.5–0.62)'
    """

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        return cls(tuple(float(v) for v in values))

    @property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        if min(self.values) == max(self.values):
            return _shown(self.median)
        return f"{_shown(self.median)} ({_shown(min(self.values))}–{_shown(max(self.values))})"


Cell = str | int | float | Spread
Value = float | Spread


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


def at_least(claim: str, value: Value, bound: float, *, unit: str = "") -> Check:
    return Check(claim, _deciding(value) >= bound, f"{_by_seed(value)}{unit}, at least {bound:.3g}{unit}")


def at_most(claim: str, value: Value, bound: float, *, unit: str = "") -> Check:
    return Check(claim, _deciding(value) <= bound, f"{_by_seed(value)}{unit}, at most {bound:.3g}{unit}")


def between(claim: str, value: Value, low: float, high: float) -> Check:
    return Check(claim, low <= _deciding(value) <= high, f"{_by_seed(value)}, from {low:.3g} to {high:.3g}")


def _deciding(value: Value) -> float:
    return value.median if isinstance(value, Spread) else value


def _by_seed(value: Value) -> str:
    if not isinstance(value, Spread):
        return f"{value:.3g}"
    if len(value.values) == 1:
        return f"{value.median:.3g}"
    return f"{value.median:.3g} (by seed {', '.join(f'{v:.3g}' for v in value.values)})"

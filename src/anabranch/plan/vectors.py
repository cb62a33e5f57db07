"""Vectors: a stream declares `v DOUBLE[40]`, and its numbers are columns `v[0]` to `v[39]` of their own.

Taken apart where rows are read, they travel, wait and are kept as any other columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.plan.logical import Column


@dataclass(frozen=True, slots=True)
class Vector:
    """A column of arrays that all have as many numbers; `type` is that of one."""

    name: str
    type: str
    length: int

    @property
    def array(self) -> Column:
        """The column as a source has it."""
        return Column(self.name, f"array<{self.type}>")

    @property
    def elements(self) -> tuple[Column, ...]:
        """The columns that queries know."""
        return tuple(Column(element_name(self.name, i), self.type) for i in range(self.length))

    @property
    def malformed(self) -> str:
        """Why a row is refused whose array is another."""
        return f"malformed vector: {self.name} is not {self.length} numbers"


def element_name(vector: str, number: int) -> str:
    """The column of a number of a vector.

    >>> element_name("v", 0)
    'v[0]'
    """
    return f"{vector}[{number}]"


def vectors_in(columns: Iterable[Column]) -> dict[str, Vector]:
    """The vectors that some columns are made of, by name in small letters.

    >>> vectors_in(Vector("V", "double", 2).elements)
    {'v': Vector(name='V', type='double', length=2)}
    """
    found: dict[str, Vector] = {}
    for column in columns:
        name, bracket, _ = column.name.rpartition("[")
        length = found[name.lower()].length if name.lower() in found else 0
        if bracket and column.name == element_name(name, length):
            found[name.lower()] = Vector(name, column.type, length + 1)
    return found

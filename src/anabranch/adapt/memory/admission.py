"""Admission: what the sites may take in a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.adapt.memory.site_budgets import RowBudget


@dataclass(frozen=True, slots=True)
class Admission:
    """What the sites may take in this batch."""

    row_budgets: Mapping[int, RowBudget]
    """By site; one that is not named takes all."""
    spilled: frozenset[int]
    """Partitions whose input waits."""

    @property
    def is_open(self) -> bool:
        return not self.row_budgets and not self.spilled


OPEN = Admission({}, frozenset())

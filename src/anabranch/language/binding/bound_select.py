"""A SELECT with every name and type resolved, before it is taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.language.binding.grouping import BoundGrouping
from anabranch.language.binding.scope import Scope
from anabranch.language.expressions.expression import Expression


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """What a SELECT says."""

    scope: Scope
    conditions: tuple[Expression, ...]
    outputs: tuple[tuple[str, Expression], ...]
    grouping: BoundGrouping | None = None

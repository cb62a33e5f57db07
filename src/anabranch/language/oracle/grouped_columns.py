"""Names that keys, arguments and aggregates of a grouped SELECT have in the oracle's SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.language.binding.grouping import BoundGrouping
from anabranch.language.expressions.expression import AggregateValue, Expression, aggregates_in, duckdb_sql
from anabranch.language.oracle.oracle_windows import Place


@dataclass(frozen=True, slots=True)
class GroupedColumns:
    """What rows have to bring to be grouped, and what comes out."""

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateValue, ...]
    arguments: tuple[Expression, ...]
    """What the aggregates are computed of."""

    @classmethod
    def of(cls, grouping: BoundGrouping, outputs: Sequence[tuple[str, Expression]]) -> GroupedColumns:
        having = () if grouping.having is None else (grouping.having,)
        values = (*(value for _, value in outputs), *having)
        aggregates = tuple(dict.fromkeys(a for value in values for a in aggregates_in(value)))
        arguments = dict.fromkeys(i for a in aggregates for i in a.inputs)
        return cls(tuple(dict.fromkeys(grouping.keys)), aggregates, tuple(arguments))

    @property
    def key_names(self) -> list[str]:
        return [f'"#k{i}"' for i in range(len(self.keys))]

    def kept(self, column: Place) -> list[str]:
        """Select list of keys and arguments."""
        named = [*zip(self.key_names, self.keys, strict=True)]
        named += [(f'"#v{i}"', value) for i, value in enumerate(self.arguments)]
        return [f"{duckdb_sql(value, column)} AS {name}" for name, value in named]

    def argument(self, value: Expression) -> str | None:
        """The column of an argument among the rows."""
        return f'"#v{self.arguments.index(value)}"' if value in self.arguments else None

    def place(self, value: Expression) -> str | None:
        """The column of a key or an aggregate among the groups."""
        if isinstance(value, AggregateValue):
            return f'"#{self.aggregates.index(value)}"'
        return f'"#k{self.keys.index(value)}"' if value in self.keys else None

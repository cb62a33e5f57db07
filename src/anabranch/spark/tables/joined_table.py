"""A table that rows of a stream meet at ingest: a broadcast join that keeps every row of the stream.

A row that meets no row of the table, or that is no use to the queries that ask for it, still moves the
watermark and may be wanted by others. So the join is an outer one, and of the rows that it makes of one row
the first stands for the row itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.plan.logical import TableJoin


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A table as a stream's rows meet it."""

    join: TableJoin
    rows: DataFrame

    @property
    def is_first(self) -> str:
        """Spark SQL: whether a row is the first of those that the join made of it."""
        return f"coalesce({_quote(self._name('position'))} = 0, TRUE)"

    def joined_with(self, frame: DataFrame) -> DataFrame:
        """The stream's rows with the columns `<id>` and `<id>.<column>`."""
        mine = [self._name(f"key{i}") for i in range(len(self.join.keys))]
        rows, position, row = self._name("rows"), self._name("position"), self._name("row")
        keyed = self.rows.selectExpr(
            *(f"{sql} AS {_quote(key)}" for key, (sql, _) in zip(mine, self.join.keys, strict=True)),
            f"struct({', '.join(map(_quote, self.rows.columns))}) AS {_quote(row)}",
        )
        grouped = keyed.groupBy(*map(_quote, mine)).agg(F.collect_list(F.col(_quote(row))).alias(rows))
        condition = " AND ".join(
            f"{sql} = {_quote(key)}" for key, (_, sql) in zip(mine, self.join.keys, strict=True)
        )
        met = frame.join(F.broadcast(grouped), F.expr(condition), "left").drop(*mine)
        one = met.selectExpr("*", f"posexplode_outer({_quote(rows)}) AS ({_quote(position)}, {_quote(row)})")
        columns = [f"{_quote(row)}.{_quote(c)} AS {_quote(f'{self.join.id}.{c}')}" for c in self.rows.columns]
        found = f"{_quote(row)} IS NOT NULL AS {_quote(self.join.id)}"
        return one.selectExpr("*", found, *columns).drop(rows, row)

    def _name(self, what: str) -> str:
        return f"__{self.join.id}_{what}"


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

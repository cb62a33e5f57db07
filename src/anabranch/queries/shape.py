"""The shape of a query: what a group has in common, with names that do not depend on the query.

References are called `r0`, `r1` … in an order of their own, values by content. So queries that differ in
aliases, in the order of FROM or in what they select can be compared, and their expressions exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from anabranch.plan.logical import Field, Query, Ref, Stream
from anabranch.queries.predicates import FilterPredicate, predicate_of

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"([^"]+)\"""")


def reference_name(position: int) -> str:
    """Alias of a reference in a group."""
    return f"r{position}"


@dataclass(frozen=True)
class Shape:
    """A query with its references in canonical order."""

    query: Query
    streams: Mapping[str, Stream]

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """References by stream; of one stream, as they are written."""
        return tuple(sorted(self.query.refs, key=lambda ref: ref.stream))

    @cached_property
    def names(self) -> dict[str, str]:
        """Alias in the query to alias in a group."""
        return {ref.alias: reference_name(i) for i, ref in enumerate(self.refs)}

    @cached_property
    def filters(self) -> tuple[FilterPredicate, ...]:
        """Filter of each reference."""
        return tuple(predicate_of(ref.filter, self.streams[ref.stream]) for ref in self.refs)

    @cached_property
    def classes(self) -> frozenset[tuple[str, frozenset[tuple[str, Field]]]]:
        """Key classes: type, and what each reference contributes."""
        return frozenset(
            (c.type, frozenset((self.names[m.alias], m.field) for m in c.members)) for c in self.query.classes
        )

    @cached_property
    def residuals(self) -> tuple[str, ...]:
        """Residuals, spelled out."""
        return tuple(self.spelled(r.sql) for r in self.query.residuals)

    def spelled(self, sql: str) -> str:
        """An expression with fields written out, so that it does not depend on their numbers."""

        def written(found: re.Match[str]) -> str:
            alias, _, index = (found[1] or "").rpartition(".")
            if alias not in self.names:
                return found[0]
            ref = next(r for r in self.query.refs if r.alias == alias)
            value = ref.fields[int(index)]
            return f'"{self.names[alias]}:{value.sql}::{value.type}"'

        return _QUOTED.sub(written, sql)

    @property
    def rests(self) -> tuple[frozenset[tuple[str, ...]], ...]:
        """By reference what conjunctions of its filter ask beside constraints: one thing, or several."""
        return tuple(frozenset(c.rest for c in f.predicate.any_of) for f in self.filters)


def renamed(sql: str, columns: Mapping[str, str]) -> str:
    """An expression over other columns: quoted names that are keys of `columns` are replaced."""
    return _QUOTED.sub(
        lambda found: f'"{columns[found[1]]}"' if found[1] is not None and found[1] in columns else found[0],
        sql,
    )

"""Profiles ⟨streams, attributes, filters⟩ (COSMOS, section 3.1.1): the data that a query, or many, want.

Values: they are united, intersected and compared like sets of rows, and their rate is estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.plan.logical import Field, Query, Stream
from anabranch.plan.predicate import FALSE, Predicate, conjoined, disjoined
from anabranch.queries.implication import implies
from anabranch.queries.predicates import attribute_types, predicate_of
from anabranch.queries.selectivity import selectivity

MOST_FILTERS = 256
"""Filters that an intersection may have; one of more keeps those of the one side."""


@dataclass(frozen=True, slots=True)
class Interest:
    """What is wanted of one stream: values of its rows, and which rows."""

    attributes: frozenset[Field]
    filters: Predicate
    types: Mapping[str, pa.DataType] = field(default_factory=dict, compare=False)
    """Types of the attributes that filters are about."""

    def covers(self, other: Interest) -> bool:
        """Whether all that the other wants is wanted here; a yes is a proof."""
        inside = other.attributes <= self.attributes
        return inside and implies(other.filters, self.filters, {**self.types, **other.types})


@dataclass(frozen=True, slots=True)
class Profile:
    """The interest in each stream.

    Examples
    --------
    >>> from anabranch.language.flow import bind_query
    >>> from anabranch.plan.logical import Column
    >>> r = Stream("r", (Column("a", "bigint"), Column("b", "bigint"), Column("ts", "timestamp")), "ts")
    >>> both = [bind_query("q", f"SELECT a FROM r WHERE a > {n}", {"r": r}) for n in (10, 20)]
    >>> wide, narrow = (Profile.of(query, {"r": r}) for query in both)
    >>> wide.covers(narrow), narrow.covers(wide), (wide | narrow).covers(wide)
    (True, False, True)
    """

    interests: Mapping[str, Interest]

    @classmethod
    def of(cls, query: Query, streams: Mapping[str, Stream]) -> Profile:
        """What one query wants."""
        found = EMPTY
        for ref in query.refs:
            read = predicate_of(ref.filter, streams[ref.stream])
            keys = (m.field for c in query.classes for m in c.members if m.alias == ref.alias)
            wanted = frozenset((*ref.fields, *keys))
            found |= cls({ref.stream: Interest(wanted, read.predicate, attribute_types(read.fields))})
        return found

    @classmethod
    def of_all(cls, queries: Iterable[Query], streams: Mapping[str, Stream]) -> Profile:
        """What many queries want together."""
        found = EMPTY
        for query in queries:
            found |= cls.of(query, streams)
        return found

    @property
    def streams(self) -> frozenset[str]:
        return frozenset(self.interests)

    def __or__(self, other: Profile) -> Profile:
        """Everything that either wants."""
        both = dict(self.interests)
        for stream, theirs in other.interests.items():
            ours = both.get(stream)
            both[stream] = theirs if ours is None else _united(ours, theirs)
        return Profile(both)

    def __and__(self, other: Profile) -> Profile:
        """Rows that both want, with the values that both want."""
        shared = sorted(self.streams & other.streams)
        found = {s: _intersected(self.interests[s], other.interests[s]) for s in shared}
        return Profile({s: i for s, i in found.items() if i.filters != FALSE})

    def covers(self, other: Profile) -> bool:
        """Whether all that the other wants is wanted here; a yes is a proof."""
        return all(s in self.interests and self.interests[s].covers(i) for s, i in other.interests.items())

    def rate(self, rates: Mapping[str, float]) -> float:
        """Rows a second that pass its filters, as an estimate; `rates`: rows a second of each stream."""
        return sum(rates[s] * selectivity(i.filters, i.types) for s, i in self.interests.items())


EMPTY = Profile({})


def _united(ours: Interest, theirs: Interest) -> Interest:
    types = {**ours.types, **theirs.types}
    if implies(theirs.filters, ours.filters, types):
        filters = ours.filters
    elif implies(ours.filters, theirs.filters, types):
        filters = theirs.filters
    else:
        filters = disjoined(ours.filters, theirs.filters)
    return Interest(ours.attributes | theirs.attributes, filters, types)


def _intersected(ours: Interest, theirs: Interest) -> Interest:
    types = {**ours.types, **theirs.types}
    filters = conjoined(ours.filters, theirs.filters, most=MOST_FILTERS) or ours.filters
    possible = Predicate(tuple(c for c in filters.any_of if not implies(Predicate((c,)), FALSE, types)))
    return Interest(ours.attributes & theirs.attributes, possible, types)

"""What a group saves: Σ C(Q_i) - C(Q), with C the rate of a query's results (COSMOS, section 3.2).

Before anything has run, rates are guesses that only compare queries of one group with each other. With a
sample of the streams' rows and a count of what a join gave, they become estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.plan.logical import UNBOUNDED_US, Query, Ref
from anabranch.queries.predicates import FilterPredicate, attribute_types
from anabranch.queries.selectivity import selectivity
from anabranch.queries.shape import Shape

MATCH = 1e-3
"""Share of the pairs of two rows that agree in a key, as a guess."""
UNBOUNDED_S = 86_400.0
"""Length that a window without end is taken to have, in seconds."""


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """What is known of the streams of a group.

    Attributes
    ----------
    rates
        Rows a second by stream; those that are missing are taken to be alike.
    match
        Share of the pairs of two rows that agree in the keys.
    samples
        By stream some of its rows: columns by name. Without one, filters are guessed from their form.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    match: float = MATCH
    samples: Mapping[str, pa.Table] = field(default_factory=dict)

    def share(self, stream: str, found: FilterPredicate) -> float:
        """Share of a stream's rows that pass a filter."""
        sample, types = self.samples.get(stream), attribute_types(found.fields)
        columns = {} if sample is None else _columns(sample, found)
        if sample is None or columns is None or any(c.rest for c in found.predicate.any_of):
            return selectivity(found.predicate, types)
        filters = GroupFilter(types)
        filters.add(0, found.predicate)
        rows = pa.table({**columns, "row": pa.nulls(sample.num_rows)})
        return sum(map(len, filters.matches(rows))) / float(max(sample.num_rows, 1))


GUESSED = StreamStatistics()


@dataclass(frozen=True, slots=True)
class Benefit:
    """Rates of results, in rows a second: of all members, and of their representative."""

    members: float
    representative: float

    @property
    def rows_per_second(self) -> float:
        """What is saved."""
        return self.members - self.representative


def benefit(shapes: Sequence[Shape], found: Query, known: StreamStatistics = GUESSED) -> Benefit:
    """Estimate what a group saves with this representative."""
    each = sum(result_rate(shape, known) for shape in shapes)
    return Benefit(each, result_rate(Shape(found, shapes[0].streams), known))


def result_rate(shape: Shape, known: StreamStatistics = GUESSED) -> float:
    """Results of a query, a second.

    A row of one stream meets those of each other's window that agree with it in a key. A join of n streams
    has the results of each of its streams' new rows.
    """
    if shape.query.grouping is not None and shape.query.grouping.window is not None:
        return 1.0
    passing = [
        known.rates.get(ref.stream, 1.0) * known.share(ref.stream, f)
        for ref, f in zip(shape.refs, shape.filters, strict=True)
    ]
    lengths = [_seconds(ref) for ref in shape.refs]
    total = 0.0
    for i, rate in enumerate(passing):
        met = rate
        for j, other in enumerate(passing):
            if j != i:
                met *= other * lengths[j] * known.match
        total += met
    return total


def _seconds(ref: Ref) -> float:
    return UNBOUNDED_S if ref.window_us >= UNBOUNDED_US else ref.window_us / 1e6


def _columns(sample: pa.Table, found: FilterPredicate) -> dict[str, pa.Array] | None:
    """The attributes of a filter, where each is a column of the sample; None where one is not."""
    columns = {}
    for name, value in found.fields.items():
        column = value.sql.strip("`")
        if column not in sample.column_names:
            return None
        columns[name] = sample.column(column).combine_chunks()
    return columns

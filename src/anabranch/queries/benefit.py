"""What a group saves: Σ C(Q_i) - C(Q), with C the rate of a query's results (COSMOS, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.plan.logical import UNBOUNDED_US, Query, Ref
from anabranch.queries.predicates import attribute_types
from anabranch.queries.selectivity import selectivity
from anabranch.queries.shape import Shape

MATCH = 1e-3
"""Share of the pairs of two rows that agree in a key, as a guess."""
UNBOUNDED_S = 86_400.0
"""Length that a window without end is taken to have, in seconds."""


@dataclass(frozen=True, slots=True)
class Benefit:
    """Rates of results, in rows a second: of all members, and of their representative."""

    members: float
    representative: float

    @property
    def rows_per_second(self) -> float:
        """What is saved."""
        return self.members - self.representative


def benefit(shapes: Sequence[Shape], found: Query, rates: Mapping[str, float] | None = None) -> Benefit:
    """Estimate what a group saves; `rates`: rows a second of each stream, all alike where not known."""
    each = sum(result_rate(shape, rates) for shape in shapes)
    return Benefit(each, result_rate(Shape(found, shapes[0].streams), rates))


def result_rate(shape: Shape, rates: Mapping[str, float] | None = None) -> float:
    """Results of a query, a second.

    A row of one stream meets those of each other's window that agree with it in a key. A join of n streams
    has the results of each of its streams' new rows.
    """
    if shape.query.grouping is not None and shape.query.grouping.window is not None:
        return 1.0
    passing = [
        (rates or {}).get(ref.stream, 1.0) * selectivity(f.predicate, attribute_types(f.fields))
        for ref, f in zip(shape.refs, shape.filters, strict=True)
    ]
    lengths = [_seconds(ref) for ref in shape.refs]
    total = 0.0
    for i, rate in enumerate(passing):
        met = rate
        for j, other in enumerate(passing):
            if j != i:
                met *= other * lengths[j] * MATCH
        total += met
    return total


def _seconds(ref: Ref) -> float:
    return UNBOUNDED_S if ref.window_us >= UNBOUNDED_US else ref.window_us / 1e6

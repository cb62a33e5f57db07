"""The representative of a group (COSMOS, section 3.2): one query that has the results of all members.

It has the loosest windows, a cover of all filters, the residuals that all share, and every value that some
member needs. What was loosened is tightened again for each member, by its part of the `Split`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.plan.logical import (
    AGGREGATES_ALIAS,
    Aggregate,
    Band,
    Distance,
    Field,
    Grouping,
    KeyClass,
    KeyMember,
    Member,
    Output,
    Query,
    Ref,
    Residual,
    Split,
    column_name,
)
from anabranch.plan.predicate import Between, Conjunction, Constraint, Predicate, conjoined
from anabranch.queries.cover import cover_of, sql_of
from anabranch.queries.shape import Shape, reference_name, renamed
from anabranch.queries.signature import key_attributes, row_constraints

AGE = "age"
"""Stands for a reference in the names of ages: no alias of a group is called so."""
_MOST_PARTS = 256
"""Conjunctions that the filters of a member's references may be multiplied out to."""


def representative(name: str, shapes: Sequence[Shape]) -> Query:
    """The representative of queries with one signature, with what each gets of its results.

    Raises
    ------
    ValueError
        The filters of a member have too many parts.
    """
    return _Builder(name, shapes).build()


@dataclass(slots=True)
class _Builder:
    name: str
    shapes: Sequence[Shape]
    fields: list[dict[Field, int]] = field(default_factory=list)
    """By reference the values that are needed of it, numbered."""
    aggregates: dict[Aggregate, int] = field(default_factory=dict)

    def build(self) -> Query:
        first = self.shapes[0]
        self.fields = [{} for _ in first.refs]
        grouping = self._grouping()
        shared = set.intersection(*(set(s.residuals) for s in self.shapes))
        windows_differ = len({tuple(r.window_us for r in s.refs) for s in self.shapes}) > 1
        times = self._times() if windows_differ and len(first.refs) > 1 else ()
        members = tuple(self._member(shape, shared, times, grouping) for shape in self.shapes)
        residuals = tuple(
            self._residual(first, r)
            for r, text in zip(first.query.residuals, first.residuals, strict=True)
            if text in shared
        )
        classes = tuple(
            KeyClass(c.type, tuple(KeyMember(first.names[m.alias], m.field) for m in c.members))
            for c in first.query.classes
        )
        refs = tuple(self._ref(position) for position in range(len(first.refs)))
        types = {column_name(r.alias, i): f.type for r in refs for i, f in enumerate(r.fields)}
        used = sorted({a for m in members for a in m.predicate.attributes})
        ages = [(a, "bigint") for a in used if a not in types]
        split = Split(members, times, (*((a, types[a]) for a in used if a in types), *ages))
        outputs = self._outputs(refs, grouping)
        text = f"representative of {', '.join(s.query.name for s in self.shapes)}"
        return Query(self.name, refs, classes, residuals, outputs, None, text, grouping, split)

    def _column(self, position: int, value: Field) -> str:
        numbered = self.fields[position]
        return column_name(reference_name(position), numbered.setdefault(value, len(numbered)))

    def _columns_of(self, shape: Shape) -> dict[str, str]:
        """Columns of a member in the representative."""
        found = {
            column_name(ref.alias, i): self._column(position, value)
            for position, ref in enumerate(shape.refs)
            for i, value in enumerate(ref.fields)
        }
        if shape.query.grouping is not None:
            for i, aggregate in enumerate(shape.query.grouping.aggregates):
                number = self.aggregates[self._moved(shape, aggregate)]
                found[column_name(AGGREGATES_ALIAS, i)] = column_name(AGGREGATES_ALIAS, number)
        return found

    def _times(self) -> tuple[str, ...]:
        first = self.shapes[0]
        streams = [first.streams[ref.stream] for ref in first.refs]
        kinds = [next(c for c in s.columns if c.name.lower() == s.time.lower()) for s in streams]
        return tuple(
            self._column(position, Field("`" + c.name.replace("`", "``") + "`", c.type))
            for position, c in enumerate(kinds)
        )

    def _member(
        self, shape: Shape, shared: set[str], times: Sequence[str], grouping: Grouping | None
    ) -> Member:
        columns = self._columns_of(shape)
        rest = [
            renamed(r.sql, columns)
            for r, text in zip(shape.query.residuals, shape.residuals, strict=True)
            if text not in shared
        ]
        having = None if shape.query.grouping is None else shape.query.grouping.having
        if having is not None and (grouping is None or grouping.having is None):
            rest.append(renamed(having, columns))
        predicate = Predicate((Conjunction(self._ages(shape, times), tuple(rest)),))
        for position, found in enumerate(shape.filters):
            its = self._moved_predicate(position, shape, found.predicate, found.fields)
            both = conjoined(predicate, its, most=_MOST_PARTS)
            if both is None:
                raise ValueError(f"the filters of query {shape.query.name!r} have too many parts to share")
            predicate = both
        outputs = tuple(_moved_output(o, columns) for o in shape.query.outputs)
        return Member(shape.query, predicate, outputs)

    def _ages(self, shape: Shape, times: Sequence[str]) -> tuple[Constraint, ...]:
        """Windows that are shorter than the representative's: `max(ts) - ts_i <= W_i`."""
        longest = self._windows()
        return tuple(
            Between(column_name(AGE, i), None, ref.window_us)
            for i, (ref, most) in enumerate(zip(shape.refs, longest, strict=True))
            if times and ref.window_us < most
        )

    def _windows(self) -> list[int]:
        each = zip(*([r.window_us for r in s.refs] for s in self.shapes), strict=True)
        return [max(windows) for windows in each]

    def _moved_predicate(
        self, position: int, shape: Shape, predicate: Predicate, fields: Mapping[str, Field]
    ) -> Predicate:
        """A filter over the representative's columns, without its rest, which all members share."""
        if shape.query.grouping is not None:
            keys = key_attributes(shape)
            predicate = Predicate(
                tuple(
                    Conjunction(tuple(c for c in both.constraints if c.attribute in keys))
                    for both in predicate.any_of
                )
            )
        return Predicate(
            tuple(
                Conjunction(
                    tuple(
                        replace(c, attribute=self._column(position, fields[c.attribute]))
                        for c in both.constraints
                    )
                )
                for both in predicate.any_of
            )
        )

    def _residual(self, shape: Shape, residual: Residual) -> Residual:
        columns = self._columns_of(shape)

        def moved(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(columns[name] for name in names)

        band, distance = residual.band, residual.distance
        if band is not None:
            band = Band(columns[band.left], columns[band.right], band.low, band.high, band.rounding)
        if distance is not None:
            distance = Distance(moved(distance.left), moved(distance.right), distance.most)
        aliases = tuple(shape.names[a] for a in residual.aliases)
        return Residual(aliases, renamed(residual.sql, columns), band, distance)

    def _ref(self, position: int) -> Ref:
        refs = [s.refs[position] for s in self.shapes]
        fields = {name: f for s in self.shapes for name, f in s.filters[position].fields.items()}
        cover = cover_of([s.filters[position].predicate for s in self.shapes], fields)
        grouped = self.shapes[0].query.grouping is not None
        exactly = row_constraints(self.shapes[0]) if grouped else ()
        return Ref(
            alias=reference_name(position),
            stream=refs[0].stream,
            window_us=self._windows()[position],
            filter=sql_of(cover, fields, exactly=exactly),
            fields=tuple(self.fields[position]),
        )

    def _grouping(self) -> Grouping | None:
        """Keys of all, the aggregates of each, and HAVING where it is the same."""
        first = self.shapes[0].query.grouping
        if first is None:
            return None
        for shape in self.shapes:
            assert shape.query.grouping is not None
            for aggregate in shape.query.grouping.aggregates:
                self.aggregates.setdefault(self._moved(shape, aggregate), len(self.aggregates))
        keys = tuple(
            replace(k, field=self._number(self.shapes[0].refs[0].fields[k.field])) for k in first.keys
        )
        having = {
            None if s.query.grouping is None or s.query.grouping.having is None
            else renamed(s.query.grouping.having, self._columns_of(s))
            for s in self.shapes
        }  # fmt: skip
        shared = having.pop() if len(having) == 1 else None
        return replace(first, keys=keys, aggregates=tuple(self.aggregates), having=shared)

    def _number(self, value: Field) -> int:
        return self.fields[0].setdefault(value, len(self.fields[0]))

    def _moved(self, shape: Shape, aggregate: Aggregate) -> Aggregate:
        fields = shape.refs[0].fields
        argument = None if aggregate.field is None else self._number(fields[aggregate.field])
        by = None if aggregate.by is None else self._number(fields[aggregate.by])
        return replace(aggregate, field=argument, by=by)

    def _outputs(self, refs: Sequence[Ref], grouping: Grouping | None) -> tuple[Output, ...]:
        """Values as they are; of a grouping, keys and aggregates."""
        found = []
        for ref in refs:
            wanted = range(len(ref.fields)) if grouping is None else sorted({k.field for k in grouping.keys})
            for i in wanted:
                name = column_name(ref.alias, i)
                found.append(Output(name, ref.fields[i].type, f'"{name}"', (ref.alias, i)))
        for j, aggregate in enumerate(() if grouping is None else grouping.aggregates):
            name = column_name(AGGREGATES_ALIAS, j)
            found.append(Output(name, aggregate.type, f'"{name}"', (AGGREGATES_ALIAS, j)))
        return tuple(found)


def _moved_output(output: Output, columns: Mapping[str, str]) -> Output:
    moved = output.field
    if moved is not None:
        alias, _, index = columns[column_name(*moved)].rpartition(".")
        moved = alias, int(index)
    return replace(output, sql=renamed(output.sql, columns), field=moved)

"""The representative of a group (COSMOS, section 3.2): one query that has the results of all members.

It has the loosest windows, a cover of all filters, the residuals that all share, and every value that some
member needs. What was loosened is tightened again for each member, by its part of the `Split`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import (
    AGGREGATES_ALIAS,
    ARRIVED,
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
from anabranch.queries.grouping.signature import key_attributes, row_constraints
from anabranch.queries.implication import implies
from anabranch.queries.predicates import attribute_types
from anabranch.queries.shape import Shape, reference_name, renamed

AGE = "age"
"""Stands for a reference in the names of ages: no alias of a group is called so."""
SINCE = column_name("arrived", 0)
"""Attribute of results: the batch in which the first of their rows came."""
_MOST_PARTS = 256
"""Conjunctions that the filters of a member's references may be multiplied out to."""


def representative(name: str, shapes: Sequence[Shape], *, is_open: bool = False) -> Query:
    """The representative of queries with one signature, with what each gets of its results.

    Joins carry along when their rows came, and at what time they were made, so that members can join later.

    Parameters
    ----------
    is_open
        Whether it takes all rows and all columns, so that any query of its signature can join, unless its
        windows are longer.

    Raises
    ------
    ValueError
        The filters of a member have too many parts.
    """
    windows = [max(each) for each in zip(*([r.window_us for r in s.refs] for s in shapes), strict=True)]
    return _Builder(name, shapes, windows, is_open=is_open).build()


def joining_member(found: Query, shape: Shape, *, is_open: bool, since: int | None) -> Member | None:
    """A query as a member of a group that is there already; None where its representative lacks something.

    Windows that are no longer, filters that imply its filter, all of its residuals, all values among its
    columns: then every result of the query is one of the representative's (theorem 3.1).

    Parameters
    ----------
    since
        The batch from which it counts: results with an older row are not its own. None for a member that was
        there from the beginning.
    """
    own = Shape(found, shape.streams)
    if shape.query.grouping is not None or found.split is None or not _is_within(shape, own, is_open=is_open):
        return None
    builder = _Builder(found.name, [shape], [ref.window_us for ref in found.refs])
    builder.fields = [{value: i for i, value in enumerate(ref.fields)} for ref in found.refs]
    member = builder.member(shape, set(own.residuals), found.split.times, None, since=since)
    if any(len(has) > len(ref.fields) for has, ref in zip(builder.fields, found.refs, strict=True)):
        return None
    return member


def with_rows_before(member: Member, batch: int) -> Member:
    """A member that gets only results with a row from before a batch."""
    before = Predicate((Conjunction((Between(SINCE, None, batch - 1),)),))
    both = conjoined(before, member.predicate, most=len(member.predicate.any_of))
    assert both is not None
    return replace(member, predicate=both)


def _is_within(shape: Shape, own: Shape, *, is_open: bool) -> bool:
    pairs = list(zip(shape.refs, own.refs, strict=True))
    if len(pairs) > 1 and any(ref.window_us > most.window_us for ref, most in pairs):
        return False
    if not set(own.residuals) <= set(shape.residuals):
        return False
    return is_open or all(
        implies(a.predicate, b.predicate, attribute_types({**a.fields, **b.fields}))
        for a, b in zip(shape.filters, own.filters, strict=True)
    )


@dataclass(slots=True)
class _Builder:
    name: str
    shapes: Sequence[Shape]
    windows: Sequence[int]
    """Of the representative, by reference."""
    is_open: bool = False
    fields: list[dict[Field, int]] = field(default_factory=list)
    """By reference the values that are needed of it, numbered."""
    aggregates: dict[Aggregate, int] = field(default_factory=dict)

    def build(self) -> Query:
        first = self.shapes[0]
        self.fields = [{} for _ in first.refs]
        grouping = self._grouping()
        shared = set.intersection(*(set(s.residuals) for s in self.shapes))
        if self.is_open and first.query.classes:
            shared = set()
        lasting = grouping is None and len(first.refs) > 1
        times = self._times() if lasting else ()
        arrived = tuple(self._column(i, ARRIVED) for i in range(len(first.refs))) if lasting else ()
        members = tuple(self.member(shape, shared, times, grouping) for shape in self.shapes)
        if self.is_open and grouping is None:
            self._take_all_columns()
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
        made = [column_name(AGE, i) for i in range(len(times))] + ([SINCE] if arrived else [])
        attributes = (*types.items(), *((name, "bigint") for name in made))
        split = Split(members, times, attributes, arrived)
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
            self._column(position, Field(quoted(c.name), c.type)) for position, c in enumerate(kinds)
        )

    def _take_all_columns(self) -> None:
        """Number all columns of the streams that results can have."""
        first = self.shapes[0]
        for position, ref in enumerate(first.refs):
            for column in first.streams[ref.stream].columns:
                if arrow_type(column.type) is not None:
                    self._column(position, Field(quoted(column.name), column.type))

    def member(
        self,
        shape: Shape,
        shared: set[str],
        times: Sequence[str],
        grouping: Grouping | None,
        *,
        since: int | None = None,
    ) -> Member:
        """What a query gets of the representative's results."""
        columns = self._columns_of(shape)
        rest = [
            renamed(r.sql, columns)
            for r, text in zip(shape.query.residuals, shape.residuals, strict=True)
            if text not in shared
        ]
        having = None if shape.query.grouping is None else shape.query.grouping.having
        if having is not None and (grouping is None or grouping.having is None):
            rest.append(renamed(having, columns))
        began = () if since is None or not times else (Between(SINCE, since, None),)
        predicate = Predicate((Conjunction((*self._ages(shape, times), *began), tuple(rest)),))
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
        return tuple(
            Between(column_name(AGE, i), None, ref.window_us)
            for i, (ref, most) in enumerate(zip(shape.refs, self.windows, strict=True))
            if times and ref.window_us < most
        )

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
        grouped = self.shapes[0].query.grouping is not None
        cover = cover_of([s.filters[position].predicate for s in self.shapes], fields)
        if self.is_open and not grouped:
            cover = Conjunction((), cover.rest)
        exactly = row_constraints(self.shapes[0]) if grouped else ()
        return Ref(
            alias=reference_name(position),
            stream=refs[0].stream,
            window_us=self.windows[position],
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


def quoted(column: str) -> str:
    """A column in Spark SQL."""
    return "`" + column.replace("`", "``") + "`"

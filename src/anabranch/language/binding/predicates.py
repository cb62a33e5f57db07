"""WHERE and ON, taken apart: filters of one reference, join keys, and what remains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from anabranch.language.expressions.expression import Call, Cast, Constant, Expression, aliases_in, spark_sql
from anabranch.language.expressions.operators import coerce
from anabranch.language.expressions.types import INTERVAL, is_widening, key_type
from anabranch.plan.logical import Field, KeyClass, KeyMember


@dataclass(slots=True)
class Predicates:
    """The conjuncts of a query, sorted by what has to evaluate them."""

    filters: dict[str, list[Expression]]
    classes: list[list[tuple[str, Expression]]] = field(default_factory=list)
    residuals: list[Expression] = field(default_factory=list)


def split_predicates(conditions: Iterable[Expression], aliases: Sequence[str]) -> Predicates:
    """Sort the conjuncts of `conditions`; `aliases` are the references in the order of FROM."""
    found = Predicates({alias: [] for alias in aliases})
    equalities: list[tuple[Expression, Expression]] = []
    for conjunct in conjuncts(conditions):
        used = aliases_in(conjunct)
        if len(used) > 1:
            pair = _key_pair(conjunct)
            if pair is None:
                found.residuals.append(conjunct)
            else:
                equalities.append(pair)
        elif not (isinstance(conjunct, Constant) and conjunct.value is True):
            owner = next(iter(used), aliases[0])
            found.filters[owner].append(conjunct)
    _add_classes(found, equalities, aliases)
    return found


def conjuncts(conditions: Iterable[Expression]) -> Iterator[Expression]:
    """Flatten ANDs."""
    for condition in conditions:
        if isinstance(condition, Call) and condition.name == "and":
            yield from conjuncts(condition.args)
        else:
            yield condition


def key_classes(predicates: Predicates) -> tuple[KeyClass, ...]:
    """The key classes as the plan sees them."""
    return tuple(
        KeyClass(
            members[0][1].type,
            tuple(KeyMember(alias, Field(spark_sql(key), key.type)) for alias, key in members),
        )
        for members in predicates.classes
    )


def _key_pair(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """Both sides of an equality between two references, in the type of the key."""
    if not (isinstance(conjunct, Call) and conjunct.name == "equal"):
        return None
    left, right = conjunct.args
    if len(aliases_in(left)) != 1 or len(aliases_in(right)) != 1:
        return None
    return as_key(left), as_key(right)


def as_key(side: Expression) -> Expression:
    """A side of an equality, in the type in which it becomes a join key."""
    target = key_type(side.type)
    # A cast to the comparison type inside a cast to the key type would be the same value written twice. A
    # cast to a smaller type is something else: it makes NULL of what does not fit.
    if isinstance(side, Cast) and is_widening(side.value.type, side.type):
        side = side.value
    if side.type == INTERVAL:
        # Not a cast: users could not tell in which unit it would count, so there is none.
        return replace(side, type=target)
    return coerce(side, target)


def _add_classes(
    found: Predicates, equalities: Iterable[tuple[Expression, Expression]], aliases: Sequence[str]
) -> None:
    for members in _connected(equalities):
        by_alias: dict[str, list[Expression]] = {}
        for key in members:
            by_alias.setdefault(next(iter(aliases_in(key))), []).append(key)
        for alias, keys in by_alias.items():
            # a.x = b.k AND a.y = b.k: one key of a is enough once a.x = a.y is known.
            found.filters[alias] += [Call("equal", (keys[0], other), "boolean") for other in keys[1:]]
        found.classes.append([(alias, by_alias[alias][0]) for alias in aliases if alias in by_alias])


def _connected(pairs: Iterable[tuple[Expression, Expression]]) -> list[list[Expression]]:
    """Union-find over keys, each class in the order of first appearance."""
    parent: dict[Expression, Expression] = {}

    def root(key: Expression) -> Expression:
        parent.setdefault(key, key)
        while parent[key] != key:
            key = parent[key]
        return key

    for left, right in pairs:
        first, second = root(left), root(right)
        if first != second:
            parent[second] = first
    classes: dict[Expression, list[Expression]] = {}
    for key in parent:
        classes.setdefault(root(key), []).append(key)
    return list(classes.values())

"""Sketches of the keys of new rows, for joins with cycles: how often would rows of two references meet?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.adapt.eddy.tree_choice import KeyOf
from anabranch.adapt.measures.key_sketch import KeySketch
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import Layout, key_hash_column


@dataclass(frozen=True, slots=True)
class SketchedKey:
    """A key of a reference: the inputs whose rows have it, and its column there."""

    key: KeyOf
    inputs: tuple[int, ...]
    column: str


def sketched_keys(layout: Layout) -> tuple[SketchedKey, ...]:
    """The keys of all joins with cycles."""
    found = []
    for routed in layout.queries:
        if not routed.has_cycles:
            continue
        for number, key_class in enumerate(routed.query.classes):
            for member in key_class.members:
                at = [i for (alias, _), i in routed.at_edges.items() if alias == member.alias]
                inputs = tuple(dict.fromkeys(at)) or (routed.input_of(member.alias),)
                key = routed.query.name, member.alias, number
                found.append(SketchedKey(key, inputs, key_hash_column(member.field)))
    return tuple(found)


def key_sketches(keys: Iterable[SketchedKey], new: Mapping[int, RowSet]) -> dict[KeyOf, KeySketch]:
    """Sketches of the keys that new rows of a slot have."""
    found: dict[KeyOf, KeySketch] = {}
    for wanted in keys:
        for rows in (new[i] for i in wanted.inputs if i in new):
            sketch = KeySketch.of(rows.int64s(wanted.column))
            before = found.get(wanted.key)
            found[wanted.key] = sketch if before is None else before.and_also(sketch)
    return found

"""What an intermediate row takes along from each reference of a query, in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.plan.inputs import Layout, RoutedQuery
from anabranch.state.block import BlockMeta

_NUMBER = 8
_OF_ANY_LENGTH = ("string", "binary")


def row_bytes(layout: Layout, routed: RoutedQuery, blocks: Sequence[BlockMeta]) -> dict[str, float]:
    """By reference; text is taken to be as long as that of the rows in state, all of it to be kept."""
    sizes: dict[str, tuple[int, int]] = {}
    for block in blocks:
        size, rows = sizes.get(block.state, (0, 0))
        sizes[block.state] = size + block.bytes, rows + block.rows
    found = {}
    for ref in routed.query.refs:
        keys = sum(member.alias == ref.alias for c in routed.query.classes for member in c.members)
        found[ref.alias] = float(_NUMBER * (len(ref.fields) + keys))
        size, rows = sizes.get(layout.inputs[routed.input_of(ref.alias)].state, (0, 0))
        if rows and any(f.type.startswith(_OF_ANY_LENGTH) for f in ref.fields):
            found[ref.alias] = max(found[ref.alias], size / rows)
    return found

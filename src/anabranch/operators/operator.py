"""What the runtime asks of an operator: to work on one site's rows, and what it keeps for later.

The state of a partition (Flux, section 3.2) is here a set of rows in immutable blocks: a
contiguous slice of each, because blocks are sorted by routing hash. So the interface that the
paper gives an operator is small:

=================  ==============================================================================
take a partition   nothing to do: its slices are named by the manifest
install it         nothing to do: the partition map names another site, which opens the slices
sizes              `BlockMeta.partitions`: rows per partition, written with every block
what to keep       `kept_states`: which states, until when, how many rows per group
=================  ==============================================================================

An operator that describes its state by `KeptState` can be moved, rescaled, compacted and expired
without knowing of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import UNBOUNDED_US, Query
from anabranch.plan.nodes import LeafNode
from anabranch.plan.state_id import StateId
from anabranch.state.expiry import (
    KEEP_ALL,
    LeafUse,
    Watermarks,
    WindowRef,
    intermediate_horizon,
    leaf_horizon,
)


class Operator(Protocol):
    """A query at one site, for one step."""

    kept: dict[str, list[pa.RecordBatch]]
    """New rows of states that the operator makes itself, in pieces."""
    pairs: int
    """How much it examined, as a measure of work."""
    pairs_by_partition: Int64s

    def run(self) -> None:
        """Evaluate the step."""


class KeptState(Protocol):
    """A state that some operator reads again later."""

    @property
    def state(self) -> str: ...

    @property
    def window_us(self) -> int:
        """How long a row matters: blocks are merged inside a part of it."""

    @property
    def newest(self) -> int | None:
        """How many of a group's newest rows are enough; None when all before the horizon count."""

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        """The time (or deadline) before which no row is needed any more.

        Parameters
        ----------
        watermarks
            By stream.
        emitted
            By query that emits final rows: the time up to which it has.
        """


@dataclass(frozen=True, slots=True)
class JoinedLeaf:
    """Rows of a stream that joins may still match."""

    state: str
    window_us: int
    use: LeafUse
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return leaf_horizon([self.use], watermarks)


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of an intermediate join."""

    state: str
    window_us: int
    refs: tuple[WindowRef, ...]
    inside: frozenset[int]
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return intermediate_horizon(self.refs, self.inside, watermarks)


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows inside windows that end at rows not emitted yet: `ts + W >= emitted`."""

    state: str
    window_us: int
    query: str
    newest: int | None
    by_count: bool
    """A window by count reaches back as far as it must."""

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        if self.by_count or self.window_us >= UNBOUNDED_US or self.query not in emitted:
            return KEEP_ALL
        return emitted[self.query] - self.window_us


@dataclass(frozen=True, slots=True)
class GroupedResults:
    """Results of a join that are there at the time of one not emitted yet: `deadline >= emitted`."""

    state: str
    window_us: int
    query: str
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return emitted.get(self.query, KEEP_ALL)


def joined_rows(state: StateId, query: Query, aliases: Collection[str]) -> JoinedRows:
    """Rows of a join of some references, as a query reads them."""
    inside = frozenset(i for i, ref in enumerate(query.refs) if ref.alias in aliases)
    shortest = min(query.refs[i].window_us for i in inside)
    return JoinedRows(state, shortest, window_refs(query), inside)


def window_refs(query: Query) -> tuple[WindowRef, ...]:
    """The references of a query, as expiry sees them."""
    return tuple(
        WindowRef(r.stream, None if r.window_us >= UNBOUNDED_US else r.window_us) for r in query.refs
    )


def kept_states(plan: LocalPlan) -> Iterator[KeptState]:
    """The states that a plan reads again in later steps."""
    if plan.window is not None and plan.window.joined:
        yield GroupedResults(plan.window.state, plan.window.window_us, plan.query.name)
    elif plan.window is not None:
        window = plan.window
        by_count = window.rows is not None
        yield WindowRows(window.state, window.window_us, plan.query.name, window.newest, by_count)
        return
    refs = window_refs(plan.query)
    position = {r.alias: i for i, r in enumerate(plan.query.refs)}
    windows = {r.alias: r.window_us for r in plan.query.refs}
    for node in plan.nodes():
        if node is plan.root:
            continue
        if isinstance(node, LeafNode):
            alias = node.aliases[0]
            yield JoinedLeaf(node.state, windows[alias], LeafUse(refs, position[alias]))
        else:
            yield from (joined_rows(state, plan.query, node.aliases) for state in node.states)

"""What the nodes of a plan keep: which states, and the time before which no row of them is needed.

Each type of node has a function in `KEEPS`. Expiry, compaction and memory budgets know no more of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch.plan.aggregate import WindowNode
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import UNBOUNDED_US, Query
from anabranch.plan.nodes import JoinNode, LeafNode, StationRows
from anabranch.plan.states.state_id import StateId
from anabranch.state.expiry import (
    KEEP_ALL,
    LeafUse,
    Watermarks,
    WindowRef,
    intermediate_horizon,
    leaf_horizon,
)


class KeptState(Protocol):
    """A state that some operator reads again later."""

    @property
    def state(self) -> StateId: ...

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

    state: StateId
    window_us: int
    use: LeafUse
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return leaf_horizon([self.use], watermarks)


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of an intermediate join."""

    state: StateId
    window_us: int
    refs: tuple[WindowRef, ...]
    inside: frozenset[int]
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return intermediate_horizon(self.refs, self.inside, watermarks)


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows inside windows that end at rows not emitted yet: `ts + W >= emitted`."""

    state: StateId
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

    state: StateId
    window_us: int
    query: str
    newest: int | None = None

    def horizon(self, watermarks: Watermarks, emitted: Mapping[str, int]) -> int:
        return emitted.get(self.query, KEEP_ALL)


@dataclass(frozen=True, slots=True)
class Reader:
    """The query that reads what nodes keep."""

    query: str
    refs: tuple[WindowRef, ...]
    positions: Mapping[str, int]
    """By reference."""
    windows_us: Mapping[str, int]

    @classmethod
    def of(cls, query: Query) -> Reader:
        return cls(
            query.name,
            tuple(
                WindowRef(r.stream, None if r.window_us >= UNBOUNDED_US else r.window_us) for r in query.refs
            ),
            {r.alias: i for i, r in enumerate(query.refs)},
            {r.alias: r.window_us for r in query.refs},
        )


def kept_states(plan: LocalPlan) -> Iterator[KeptState]:
    """The states that a plan reads again in later steps."""
    reader = Reader.of(plan.query)
    for node in plan.keeping():
        yield from KEEPS[type(node)](node, reader)


def _stream(node: LeafNode, reader: Reader) -> Iterator[KeptState]:
    (alias,) = node.aliases
    yield JoinedLeaf(node.state, reader.windows_us[alias], LeafUse(reader.refs, reader.positions[alias]))


def joined_rows(state: StateId, query: Query, aliases: Collection[str]) -> KeptState:
    """Rows of a join of some references, as a query would read them."""
    return _rows_of(state, aliases, Reader.of(query))


def _joined(node: JoinNode | StationRows, reader: Reader) -> Iterator[KeptState]:
    yield from (_rows_of(state, node.aliases, reader) for state in node.states)


def _rows_of(state: StateId, aliases: Collection[str], reader: Reader) -> KeptState:
    shortest = min(reader.windows_us[alias] for alias in aliases)
    return JoinedRows(state, shortest, reader.refs, frozenset(reader.positions[alias] for alias in aliases))


def _window(node: WindowNode, reader: Reader) -> Iterator[KeptState]:
    if node.joined:
        yield GroupedResults(node.state, node.window_us, reader.query)
    else:
        by_count = node.rows is not None
        yield WindowRows(node.state, node.window_us, reader.query, node.newest, by_count)


KEEPS: Mapping[type, Callable[[Any, Reader], Iterator[KeptState]]] = {
    LeafNode: _stream,
    JoinNode: _joined,
    StationRows: _joined,
    WindowNode: _window,
}
"""By type of node, what it keeps."""

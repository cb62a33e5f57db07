"""Nodes of a plan, a small graph: whose rows each reads, what it keeps, and how its rows are named.

A further node (an outer join, a derived stream, stations with a router of their own) is a class here and a
line in each of two tables, without a change to the others:

- `operators.kept_states.KEEPS`: which states it keeps, and their horizon;
- `operators.plan_operator.OPERATORS`, if it is a root: the operator that evaluates it. For a join that finds
  its rows in another way a row source will do (`SOURCES` there, `operators.join.sources.row_source`).

Results leave in the step in which they are found, unless a `WindowNode` takes them: those wait until they
are final.

Logical column names inside one query: `k<c>` is the hash of key class c, `key<c>` its full value
where 64 bits cannot hold it, `<alias>.<i>` is a field of a reference. `names` maps them to the
physical columns of the node's rows, which are named by content and so outlive a changed SELECT list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from anabranch.plan.inputs import DEADLINE, MAX_TIME, TIME
from anabranch.plan.logical import Band, Distance
from anabranch.plan.states.state_id import StateId
from anabranch.plan.stations.join_tree import Edge


@dataclass(frozen=True, slots=True)
class LeafNode:
    """The rows of one reference, as an input keeps them."""

    aliases: tuple[str, ...]
    input: int
    state: StateId
    window_us: int
    names: Mapping[str, str]
    max_time: str = TIME
    deadline: str = TIME
    """Column that, with `window_us` added, is the row's deadline."""
    has_tracks: ClassVar[bool] = False

    def nodes(self) -> Iterator[Operand]:
        """The nodes with a state in the graph below and here, children before parents."""
        yield self


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Two inputs joined. `state` names what it keeps for its sibling above; the root keeps nothing."""

    aliases: tuple[str, ...]
    left: Operand
    right: Operand
    classes: tuple[int, ...]
    """Key classes joined on; empty for a theta join."""
    on_routing_hash: bool
    verify: tuple[str, ...]
    """Logical columns to compare because the join hash alone does not prove them equal."""
    residuals: tuple[str, ...]
    residual_columns: tuple[str, ...]
    columns: tuple[str, ...]
    """Logical columns that live on above this node."""
    state: StateId
    names: Mapping[str, str]
    ordered: bool = False
    """Whether its rows are probed in the order of their routing hash."""
    earlier: StateId | None = None
    """In a track that ends: the state with its rows from before a newer track began."""
    crossings: tuple[Crossing, ...] = ()
    """In a track that ends: how its rows are found that are new on a side which is itself a join."""
    fresh: StateId | None = None
    """In a track that ends: the state of its rows that are new throughout, where crossings need one."""
    bands: tuple[Band, ...] = ()
    """What some of the residuals say: bounds of differences, of a column of the left to one of the right."""
    beside_bands: tuple[str, ...] = ()
    """The other residuals, without the distance."""
    distance: Distance | None = None
    """What one of the residuals says: the largest distance of a vector of the left to one of the right."""
    beside_distance: tuple[str, ...] = ()
    """The other residuals, bands and all."""
    window_us: int = 0
    max_time: str = MAX_TIME
    deadline: str = DEADLINE
    has_tracks: ClassVar[bool] = True

    @property
    def sides(self) -> tuple[Operand, Operand]:
        return self.left, self.right

    @property
    def states(self) -> tuple[StateId, ...]:
        """All that it keeps."""
        return tuple(state for state in (self.state, self.earlier, self.fresh) if state)

    def nodes(self) -> Iterator[Operand]:
        yield from self.left.nodes()
        yield from self.right.nodes()
        yield self

    def index_of(self, side: Operand) -> tuple[str, ...]:
        """Physical columns of `side` that make up the join hash; () when it is the routing hash."""
        if self.on_routing_hash:
            return ()
        return tuple(side.names[f"k{c}"] for c in self.classes)


@dataclass(frozen=True, slots=True)
class StationRows:
    """Joined rows that have arrived at a station, addressed by the key of its edge."""

    aliases: tuple[str, ...]
    edge: int
    key: str
    """Logical column by which they are addressed."""
    state: StateId
    columns: tuple[str, ...]
    """Logical columns that they carry."""
    names: Mapping[str, str]
    is_shared: bool = False
    """Whether other queries have the same rows there."""
    window_us: int = 0
    max_time: str = MAX_TIME
    deadline: str = DEADLINE

    @property
    def states(self) -> tuple[StateId, ...]:
        return (self.state,)

    def nodes(self) -> Iterator[Operand]:
        yield self


LocalNode = LeafNode | JoinNode
"""A node of a join tree."""
StoredNode = LeafNode | StationRows
"""What is kept at a station."""
Operand = LeafNode | JoinNode | StationRows
"""What a join has on either side."""


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """All references joined without intermediate state: a left-deep chain from each of them."""

    aliases: tuple[str, ...]
    chains: tuple[JoinNode, ...]
    has_tracks: ClassVar[bool] = True

    def nodes(self) -> Iterator[Operand]:
        """Only those of references: what chains find on their way is not kept."""
        yield from (node for node in self.chains[0].nodes() if isinstance(node, LeafNode))


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two references on one side of a join, with new rows, and the other side, with old ones.

    Attributes
    ----------
    by_old, by_new
        Chains from the old side and from each of the references. Those of the references come to the old
        side first, or last.
    """

    new: tuple[LeafNode, ...]
    old: LocalNode
    by_old: ProbeNode
    by_new: ProbeNode


@dataclass(frozen=True, slots=True)
class Station:
    """An edge with its two SteMs: rows of either side, each set of references in a state of its own."""

    edge: Edge
    left: tuple[StoredNode, ...]
    right: tuple[StoredNode, ...]
    joins: tuple[JoinNode, ...]
    """Each set of the left with each of the right."""


@dataclass(frozen=True, slots=True)
class StationsNode:
    """All stations of a query."""

    aliases: tuple[str, ...]
    stations: tuple[Station, ...]
    onward: Mapping[tuple[str, ...], tuple[StationRows, ...]]
    """By references of a joined row: what it may become at a further station."""
    alternatives: Mapping[str, tuple[LeafNode, ...]]
    """By reference: its rows at each station where they may arrive first."""
    hops: int
    """How often rows may travel, the first time included."""
    has_tracks: ClassVar[bool] = False

    def choices(self) -> Iterator[tuple[StoredNode, ...]]:
        """Of each set of references whose rows have a choice: what they become at each of the stations."""
        yield from (leaves for leaves in self.alternatives.values() if len(leaves) > 1)
        yield from (rows for rows in self.onward.values() if len(rows) > 1)

    def rows(self) -> Iterator[StoredNode]:
        """Everything that is kept. References that share a state have windows of their own."""
        kept = {(node.state, node.aliases): node for s in self.stations for node in (*s.left, *s.right)}
        yield from kept.values()

    def nodes(self) -> Iterator[Operand]:
        return self.rows()

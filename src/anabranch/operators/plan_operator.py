"""Which operator evaluates a plan: by the type of its root, and by the part that a site has in it.

A further kind of root is one more line in `OPERATORS`; a further kind of join is one in `SOURCES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from anabranch.operators.group.answered_share import EVERYTHING, AnsweredShare
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.window_aggregate import WindowAggregate
from anabranch.operators.group.window_distinct import WindowDistinct
from anabranch.operators.group.windows.aligned_windows import AlignedWindows
from anabranch.operators.group.windows.session_windows import SessionWindows
from anabranch.operators.group.windows.window_intake import WindowIntake
from anabranch.operators.join.common_stations import CommonStations
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.chain_rows import ChainRows
from anabranch.operators.join.sources.ending_chains import EndingChains
from anabranch.operators.join.sources.ending_rows import EndingRows
from anabranch.operators.join.sources.row_source import RowSource, SiteRows
from anabranch.operators.join.sources.tree_rows import TreeRows
from anabranch.operators.join.station_join import Choose, Send, StationJoin
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.operator import Operator
from anabranch.operators.passing_rows import PassingRows
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, LeafNode, ProbeNode, StationsNode
from anabranch.plan.states.state_id import StateId


class Role(StrEnum):
    """The part that a site has in a plan."""

    RUNS = "runs"
    ENDS = "ends"
    """A newer track has begun: only results with an old row are found here."""
    SPLITS = "splits"
    """Other sites have rows of the same keys: only results of some origins are found here."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """What a site gives an operator for one step.

    Attributes
    ----------
    emit
        Takes each table of results.
    quota
        Largest number of pairs, or ranges, that a batch may examine.
    memory
        Counts the rows that are kept, and takes those that are many to files.
    owned
        Whether each partition belongs to the site.
    choose
        Which way rows take that may go on to several stations.
    emission
        Which rows are final, if the query groups.
    origins
        Where keys are split: the rows from which results start, by input.
    share
        Where groups are spread: which of their rows are answered here.
    arrived
        Joined rows that have arrived at stations, by state.
    is_first
        Whether new rows of streams arrive there, too.
    send
        Where rows go on from stations.
    common
        What queries find at stations for each other.
    """

    rows: SiteRows
    emit: Callable[[pa.Table], None]
    quota: int
    memory: WorkMemory
    owned: Flags
    choose: Choose
    emission: Emission | None = None
    role: Role = Role.RUNS
    origins: Mapping[int, RowSet] = field(default_factory=dict)
    share: AnsweredShare = EVERYTHING
    arrived: Mapping[StateId, Sequence[RowSet]] = field(default_factory=dict)
    is_first: bool = True
    send: Send | None = None
    common: CommonStations | None = None


Grouping = WindowAggregate | WindowDistinct | AlignedWindows | SessionWindows


def operator_of(plan: LocalPlan, given: StepInput) -> Operator:
    """The operator of a plan's root."""
    return OPERATORS[type(plan.root)](plan, given)


def grouping_of(plan: LocalPlan, blocks: Sequence[RowSet], given: StepInput) -> Grouping:
    """The operator of what groups a plan's rows."""
    window = plan.window
    assert window is not None
    assert given.emission is not None
    return _grouping_kind(window)(
        plan.query,
        window,
        blocks=blocks,
        emission=given.emission,
        owned=given.owned,
        emit=given.emit,
        quota=given.quota,
        share=given.share,
    )


def _grouping_kind(window: WindowNode) -> type[Grouping]:
    if window.grouped is not None:
        return SessionWindows if window.grouped.session else AlignedWindows
    return WindowDistinct if window.distinct else WindowAggregate


def _stream(plan: LocalPlan, given: StepInput) -> Operator:
    if plan.window is None:
        return PassingRows(plan, given.rows.arrived, given.emit)
    if plan.window.joined:
        return WindowIntake(plan, given.rows.arrived)
    return grouping_of(plan, given.rows.held.get(plan.window.state, ()), given)


def _join(plan: LocalPlan, given: StepInput) -> Operator:
    source = SOURCES[type(plan.root), given.role]
    return WindowJoin(
        plan,
        plan.root,
        lambda evaluator: source(evaluator, plan, given),
        emit=given.emit,
        quota=given.quota,
        memory=given.memory,
    )


def _stations(plan: LocalPlan, given: StepInput) -> Operator:
    arrived, new = dict(given.arrived), given.rows.arrived
    if given.is_first:
        leaves = (node for node in plan.nodes() if isinstance(node, LeafNode))
        arrived |= {node.state: [new[node.input]] for node in leaves if node.input in new}
    assert given.send is not None
    return StationJoin(
        plan,
        arrived=arrived,
        old=given.rows.held,
        emit=given.emit,
        quota=given.quota,
        memory=given.memory,
        choose=given.choose,
        send=given.send,
        common=given.common,
    )


def _ending(evaluator: JoinEvaluator, plan: LocalPlan, given: StepInput) -> RowSource[Any]:
    assert isinstance(plan.root, JoinNode)
    return EndingRows(evaluator, given.rows, plan.root)


def _split(evaluator: JoinEvaluator, plan: LocalPlan, given: StepInput) -> RowSource[Any]:
    return ChainRows(evaluator, given.rows, starts=SiteRows(given.origins, {}))


SOURCES: Mapping[tuple[type, Role], Callable[[JoinEvaluator, LocalPlan, StepInput], RowSource[Any]]] = {
    (JoinNode, Role.RUNS): lambda evaluator, plan, given: TreeRows(evaluator, given.rows),
    (JoinNode, Role.ENDS): _ending,
    (ProbeNode, Role.RUNS): lambda evaluator, plan, given: ChainRows(evaluator, given.rows),
    (ProbeNode, Role.ENDS): lambda evaluator, plan, given: EndingChains(evaluator, given.rows),
    (ProbeNode, Role.SPLITS): _split,
}
"""By type of root and role: where the rows of a join come from."""

OPERATORS: Mapping[type, Callable[[LocalPlan, StepInput], Operator]] = {
    LeafNode: _stream,
    JoinNode: _join,
    ProbeNode: _join,
    StationsNode: _stations,
}
"""By type of root: who evaluates it."""

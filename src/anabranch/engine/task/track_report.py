"""What a track tells of its work: from it policies learn what things cost, and how rows meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.adapt.measures.site_report import StationReport
from anabranch.engine.reports import JoinReport, SiteReport
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.join.edge_sample import sample_edge
from anabranch.operators.join.station_join import StationJoin
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.inputs import HASH
from anabranch.plan.nodes import JoinNode, LeafNode, StationsNode
from anabranch.plan.states.state_id import StateId


def tell_work(join: JoinReport, operator: WindowJoin[Any], seconds: float) -> None:
    """Report work and time, from which the optimizer learns what things cost."""
    join.busy_s += seconds
    join.probes += operator.probes
    join.pairs += operator.pairs
    join.inserts += sum(batch.num_rows for batches in operator.kept.values() for batch in batches)


def tell_stations(
    report: SiteReport,
    root: StationsNode,
    operator: StationJoin,
    stored: Callable[[StateId], Sequence[OpenBlock]] | None,
    mine: np.ndarray,
) -> None:
    """Report what rows did that had a choice of stations.

    Parameters
    ----------
    stored
        The blocks of a state; None where they have been told.
    mine
        Partitions whose rows count.
    """
    for node in {node.state: node for options in root.choices() for node in options}.values():
        told = report.stations.setdefault(node.state, StationReport())
        for rows in operator.came.get(node.state, ()):
            told.arrived += partition_counts(rows.int64s(HASH))
        for block in stored(node.state) if stored is not None else ():
            told.stored += block.rows_of * mine
        told.found += operator.found.get(node.state, 0)
        told.met += operator.met.get(node.state, 0)


def tell_edges(
    join: JoinReport,
    edges: Sequence[JoinNode],
    new: Mapping[int, RowSet],
    states: Mapping[StateId, Sequence[RowSet]],
    *,
    from_left: bool,
) -> None:
    """Report how references meet, by a sample: new rows of one side of each edge probe the other."""
    for edge in edges:
        probing, met = (edge.left, edge.right) if from_left else (edge.right, edge.left)
        assert isinstance(probing, LeafNode)
        if (rows := new.get(probing.input)) is not None:
            pair = frozenset(edge.aliases)
            count = sample_edge(edge, probing, rows, met, states.get(met.state, ()))
            join.edges[pair] = join.edges.get(pair, EdgeCount()).and_also(count)

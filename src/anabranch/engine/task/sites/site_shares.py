"""What a group of sites did, told for each of them.

Rows, pairs by partition and rows in state are counted, so that every site gets its own. Time, results and
samples of how streams meet are known for the group: each site gets its share by rows and pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from anabranch.adapt.measures.statistics import Floats, Ints, sum_by_site
from anabranch.engine.reports import JoinReport, SiteReport
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.engine.task.sites.site_groups import SiteGroup
from anabranch.exchange.address import PARTITIONS
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import LeafNode
from anabranch.plan.states.state_id import StateId


class SiteShares:
    """Shares the reports of groups out.

    Parameters
    ----------
    site_of
        Site of each partition.
    arrived
        By input, new rows of each partition.
    blocks
        Open blocks by state.
    """

    def __init__(
        self,
        site_of: np.ndarray,
        sites: int,
        arrived: Mapping[int, Ints],
        blocks: Mapping[StateId, Sequence[OpenBlock]],
    ) -> None:
        self._site_of = site_of
        self._sites = sites
        self._arrived = arrived
        self._blocks = blocks
        self._in_state: dict[StateId, Floats] = {}

    def of(self, group: SiteGroup, report: SiteReport) -> list[SiteReport]:
        """The report of a group as one of each site."""
        mine = np.array(group.sites)
        did: dict[int, list[tuple[int, int, int]]] = {site: [] for site in group.sites}
        for entry in report.partitions:
            did[int(self._site_of[entry[0]])].append(entry)
        weights = np.array([sum(rows + pairs for _, rows, pairs in did[site]) for site in group.sites], float)
        if not weights.any():
            weights = np.ones(len(mine))
        share = weights / weights.sum()
        rows = self._by_site(sum(self._arrived.values(), np.zeros(PARTITIONS)))[mine]
        pairs, results, passing = (
            whole_shares(total, share) for total in (report.pairs, report.results, report.passing_results)
        )
        sites = [
            SiteReport(
                site,
                busy_s=report.busy_s * part,
                rows=int(rows[i]),
                pairs=pairs[i],
                results=results[i],
                passing_s=report.passing_s * part,
                passing_results=passing[i],
                partitions=tuple(did[site]),
                diffused_s={query: seconds * part for query, seconds in report.diffused_s.items()},
            )
            for i, (site, part) in enumerate(zip(group.sites, share.tolist(), strict=True))
        ]
        sites[0].waiting = report.waiting  # who has them does not matter: they are counted for the query
        sites[0].stations = report.stations  # likewise, and by partition
        sites[0].diffusion = report.diffusion  # likewise
        sites[0].at_stations_s = report.at_stations_s
        plans = {work.plan.query.name: work.plan for work in group.work}
        for query, join in report.joins.items():
            for site, told in zip(sites, self._joins(plans[query], join, mine, share), strict=True):
                site.joins[query] = told
        return sites

    def _joins(self, plan: LocalPlan, join: JoinReport, mine: Ints, share: Floats) -> list[JoinReport]:
        leaves = [node for node in plan.nodes() if isinstance(node, LeafNode)]
        none = np.zeros(PARTITIONS)
        new = {n.aliases[0]: self._by_site(self._arrived.get(n.input, none))[mine] for n in leaves}
        kept = {n.aliases[0]: self._rows_in(n.state)[mine] for n in leaves}
        probes, pairs, inserts = (whole_shares(n, share) for n in (join.probes, join.pairs, join.inserts))
        edges = {
            pair: list(map(EdgeCount, *(whole_shares(n, share) for n in count)))
            for pair, count in join.edges.items()
        }
        return [
            JoinReport(
                join.busy_s * part,
                probes[i],
                pairs[i],
                inserts[i],
                join.settled,
                {alias: int(rows[i]) for alias, rows in new.items()},
                {alias: int(rows[i]) for alias, rows in kept.items()},
                {pair: counts[i] for pair, counts in edges.items()},
            )
            for i, part in enumerate(share.tolist())
        ]

    def _rows_in(self, state: StateId) -> Floats:
        if state not in self._in_state:
            counts = sum((block.rows_of for block in self._blocks.get(state, ())), np.zeros(PARTITIONS))
            self._in_state[state] = self._by_site(counts)
        return self._in_state[state]

    def _by_site(self, counts: np.ndarray) -> Floats:
        return sum_by_site(counts, self._site_of, self._sites)


def whole_shares(total: int, share: Floats) -> list[int]:
    """A number of things in whole parts that add up to it.

    >>> whole_shares(10, np.array([0.25, 0.25, 0.5]))
    [2, 3, 5]
    """
    ends = np.rint(total * np.cumsum(share)).astype(np.int64)
    ends[-1] = total
    return [int(b - a) for a, b in pairwise([0, *ends.tolist()])]

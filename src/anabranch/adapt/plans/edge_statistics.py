"""Edge statistics: rates and selectivities of each query at each site, from what the batches report.

Sums of counts, older batches fading, so that a ratio of two sums is always an average weighted by
evidence. Rows in state are those of the last report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.cost.estimates import JoinStatistics, edges_of
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import References

DECAY = 0.5
"""Weight that past batches keep at each new one: what a migration costs follows from rates as they are, and
rates that fall by 20 must not look 5 times too high after half a window of batches."""
EDGE_DECAY = 0.5
"""Weight that samples of an edge keep at each new one: a sample has examined enough pairs to stand alone,
and a selectivity that falls by 100 must not take 20 samples to be believed."""
DOUBT = 3.0
"""Standard deviations by which the pairs of a site must differ from what all sites found: a sample finds some
dozens, and a fifth more or less of them would make one order look better than another."""
UNKNOWN_PREDICATE = 1 / 3
"""Selectivity of a predicate nobody has tried yet, as System R had it."""


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """What a site tells about one query after a batch.

    Attributes
    ----------
    elapsed_s
        Seconds of event time that passed.
    new_rows, state_rows
        Per reference: rows that arrived, rows in state.
    samples
        Per pair of references; pairs that were not probed directly may be missing.
    """

    elapsed_s: float
    new_rows: Mapping[str, int]
    state_rows: Mapping[str, int]
    samples: Mapping[References, EdgeCount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What is kept of one query at one site."""

    seconds: float = 0.0
    batches: int = 0
    """All that were counted; none of them fades."""
    rows: dict[str, float] = field(default_factory=dict)
    state_rows: dict[str, float] = field(default_factory=dict)
    examined: dict[References, float] = field(default_factory=dict)
    met: dict[References, float] = field(default_factory=dict)
    passed: dict[References, float] = field(default_factory=dict)

    def and_then(self, report: EdgeReport, decay: float) -> _Sums:
        """The sums with a batch counted."""
        # An edge that is not probed any more has not changed for all we know: it does not fade.
        sums = dict(self.examined), dict(self.met), dict(self.passed)
        for pair, count in report.samples.items():
            for found, new in zip(sums, count, strict=True):
                found[pair] = EDGE_DECAY * found.get(pair, 0.0) + new
        return _Sums(
            decay * self.seconds + report.elapsed_s,
            self.batches + 1,
            {a: decay * self.rows.get(a, 0.0) + n for a, n in report.new_rows.items()},
            {a: float(n) for a, n in report.state_rows.items()},
            *sums,
        )


class EdgeStatistics:
    """Rolling statistics of all queries at all sites.

    Parameters
    ----------
    decay
        Weight that past batches keep at each new one.
    """

    def __init__(self, *, decay: float = DECAY) -> None:
        self._decay = decay
        self._queries: dict[str, dict[int, _Sums]] = {}

    def add(self, site: int, query: str, report: EdgeReport) -> None:
        """Count a batch."""
        sites = self._queries.setdefault(query, {})
        sites[site] = sites.get(site, _Sums()).and_then(report, self._decay)

    def copy(self) -> EdgeStatistics:
        """Statistics that go on from here; what they count does not change these."""
        twin = EdgeStatistics(decay=self._decay)
        twin._queries = {query: dict(sites) for query, sites in self._queries.items()}
        return twin

    def join_statistics(
        self, site: int, query: str, *, graph: JoinGraph, windows_s: Mapping[str, float]
    ) -> JoinStatistics | None:
        """What is known for the optimizer; None while the site has reported nothing about the query."""
        sums = self._queries.get(query, {}).get(site)
        if sums is None or sums.seconds <= 0:
            return None
        rates = {alias: sums.rows.get(alias, 0.0) / sums.seconds for alias in graph.aliases}
        found = {pair: self._selectivity(site, query, pair) for pair in edges_of(graph)}
        selectivities = {
            pair: measured[0]
            if measured is not None
            else _neutral(graph, pair, [sums.state_rows.get(alias, 0.0) for alias in pair])
            for pair, measured in found.items()
        }
        doubts = {pair: measured[1] for pair, measured in found.items() if measured is not None}
        rows = {alias: sums.state_rows[alias] for alias in graph.aliases if alias in sums.state_rows}
        passing = {
            pair: share
            for pair in found
            if graph.shared_classes(*({alias} for alias in pair)) and (share := self._passing(query, pair))
        }
        weight = (1 - self._decay**sums.batches) / (1 - self._decay) if self._decay < 1 else sums.batches
        batch_s = sums.seconds / weight if sums.batches else 0.0
        return JoinStatistics(
            rates, dict(windows_s), selectivities, rows, batch_s, float(sums.batches), doubts, passing
        )

    def _passing(self, query: str, pair: References) -> float | None:
        """Of pairs that share a key, those for which predicates over both are true; None if all are."""
        sites = self._queries[query].values()
        met, passed = (
            sum(counts.get(pair, 0.0) for counts in by_site)
            for by_site in ([s.met for s in sites], [s.passed for s in sites])
        )
        return (passed + 0.5) / (met + 1.0) if passed < met else None

    def _selectivity(self, site: int, query: str, pair: References) -> tuple[float, float] | None:
        """With its error; as measured over all sites, or here where that stands out of chance."""
        sites = self._queries[query]
        own, everywhere = _ratio([sites[site]], pair), _ratio(sites.values(), pair)
        if own is None or everywhere is None:
            return everywhere
        expected = everywhere[0] * sites[site].examined[pair]
        apart = abs(sites[site].passed[pair] - expected)
        return own if apart > DOUBT * math.sqrt(expected + 1) else everywhere

    def to_json(self) -> dict[str, Any]:
        """Columns are named once per query: there is a row of numbers per site, in every manifest."""
        return {query: _query_to_json(sites) for query, sites in self._queries.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, decay: float = DECAY) -> EdgeStatistics:
        statistics = cls(decay=decay)
        statistics._queries = {query: _query_from_json(sites) for query, sites in data.items()}
        return statistics


def _ratio(all_sums: Iterable[_Sums], pair: References) -> tuple[float, float] | None:
    """Pairs found of pairs possible, and the standard error of that.

    Half a pair more than seen, because none seen does not mean none.

    >>> sums = _Sums(examined={frozenset("ab"): 999.0}, passed={frozenset("ab"): 0.0})
    >>> _ratio([sums], frozenset("ab"))
    (0.0005, 0.001)
    """
    known = [sums for sums in all_sums if sums.examined.get(pair, 0.0) > 0]
    if not known:
        return None
    pairs, examined = sum(s.passed[pair] for s in known), sum(s.examined[pair] for s in known)
    return min(1.0, (pairs + 0.5) / (examined + 1.0)), math.sqrt(pairs + 1) / (examined + 1.0)


def _neutral(graph: JoinGraph, pair: References, rows: list[float]) -> float:
    """Before anything is known: on a key every row of the larger side has one partner."""
    if any(pair <= members for members in graph.class_aliases):
        return 1 / max(*rows, 1.0)
    return UNKNOWN_PREDICATE


def _query_to_json(sites: Mapping[int, _Sums]) -> dict[str, Any]:
    aliases = sorted({alias for sums in sites.values() for alias in sums.rows | sums.state_rows})
    edges = sorted(sorted(pair) for pair in {pair for sums in sites.values() for pair in sums.examined})
    pairs = [frozenset(edge) for edge in edges]
    return {
        "aliases": aliases,
        "edges": edges,
        "batches": {str(site): sums.batches for site, sums in sites.items()},
        "sites": {
            str(site): [
                _short(sums.seconds),
                *(_short(sums.rows.get(a)) for a in aliases),
                *(_short(sums.state_rows.get(a)) for a in aliases),
                *(_short(counts.get(p)) for counts in (sums.examined, sums.passed) for p in pairs),
                *(_short(sums.met[p]) if sums.met.get(p) != sums.passed.get(p) else None for p in pairs),
            ]
            for site, sums in sites.items()
        },
    }


def _query_from_json(data: Mapping[str, Any]) -> dict[int, _Sums]:
    aliases, pairs = data["aliases"], [frozenset(edge) for edge in data["edges"]]
    sites = {}
    for site, (seconds, *numbers) in data["sites"].items():
        values = iter(numbers)
        columns = [
            {name: float(value) for name, value in zip(names, values, strict=False) if value is not None}
            for names in (aliases, aliases, pairs, pairs, pairs)
        ]
        batches = int(data.get("batches", {}).get(site, 0))
        rows, state_rows, examined, passed, met = columns
        sites[int(site)] = _Sums(float(seconds), batches, rows, state_rows, examined, passed | met, passed)
    return sites


def _short(value: float | None) -> float | None:
    """Six digits: estimates are no better, and they are written with every batch."""
    return None if value is None else float(f"{value:.6g}")

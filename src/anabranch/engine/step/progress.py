"""Making the progress of a committed step from its manifest and the reports of its slots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import numpy as np

from anabranch.engine.progress import (
    EddyProgress,
    OrderingProgress,
    Progress,
    QueryProgress,
    SiteProgress,
    StateProgress,
    StreamProgress,
)
from anabranch.engine.reports import SiteReport
from anabranch.engine.sinks.shared_sink import PREFIX
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.step.query_costs import cpu_by_query
from anabranch.engine.task.results.result_files import rows_shared
from anabranch.state import QueryState

ALL_QUERIES = 100
"""Sessions with more queries tell only of those that have something to tell."""
MOST_QUERIES = 10_000
"""With more that have results, those with the most are told of."""

Lags = Mapping[str, Mapping[str, Mapping[str, int]]]
"""By stream, topic and partition, the messages that are not read yet."""


def progress_of(summary: BatchSummary, *, rows_before: int, lags: Lags | None = None) -> Progress:
    """Describe a step.

    Parameters
    ----------
    rows_before
        Rows that the checkpoint's streams had brought before it.
    lags
        How far streams are behind their sources, where that is known.
    """
    lags = lags or {}
    manifest = summary.manifest
    total = sum(summary.seconds.values())
    rows = sum(s.accepted + s.late + s.rejected for s in manifest.streams) - rows_before
    emitted = _output_rows(summary)
    sites = sorted((s for r in summary.reports for s in r.sites), key=lambda s: s.site)
    return Progress(
        manifest.batch,
        manifest.step,
        datetime.fromtimestamp(manifest.committed_at, UTC).isoformat(timespec="milliseconds"),
        input_rows=rows,
        state=_state(summary),
        rows_per_second=round(rows / total, 1) if total else 0.0,
        duration_ms={phase: round(s * 1000, 1) for phase, s in summary.seconds.items()}
        | {"triggerExecution": round(total * 1000, 1)},
        critical_path_ms=round(summary.critical_path_s * 1000, 1),
        slot_ms=_slowest_slot(summary),
        streams={
            s.name: StreamProgress(
                _instant(s.watermark), s.accepted, s.late, s.refused, s.rejected, lags.get(s.name, {})
            )
            for s in manifest.streams
        },
        queries=_queries(summary, emitted),
        output_rows=emitted.total(),
        sites=tuple(_site(s) for s in sites),
        replayed=summary.replayed,
        eddies=tuple(map(EddyProgress.of, summary.eddies)),
        routing=summary.spread,
        orderings=tuple(map(OrderingProgress.of, summary.orderings)),
        at_home=len(summary.homes.site),
        largest_ratio=round(summary.homes.ratio, 1),
    )


def _site(report: SiteReport) -> SiteProgress:
    return SiteProgress(
        report.site,
        round(report.busy_s * 1000, 2),
        rows=report.rows,
        pairs=report.pairs,
        results=report.results,
        state_bytes=report.state_bytes,
        partitions=tuple((int(p), int(rows), int(pairs)) for p, rows, pairs in report.partitions),
    )


def _output_rows(summary: BatchSummary) -> Counter[str]:
    """Results by query."""
    emitted = Counter[str]()
    for name, rows in rows_shared(summary.reports):
        emitted[name] += rows
    told_already = frozenset(emitted)
    for file in summary.manifest.results:
        if file.query not in told_already and not file.query.startswith(PREFIX):
            emitted[file.query] += file.rows
    return emitted


def _queries(summary: BatchSummary, emitted: Counter[str]) -> dict[str, QueryProgress]:
    known = summary.manifest.queries
    told: Iterable[QueryState] = known
    if len(known) > ALL_QUERIES:
        by_name, notable = _by_name(known)
        names = {**dict.fromkeys(_busiest(emitted)), **notable, **summary.undelivered}
        told = [by_name[name] for name in names if name in by_name]
    cpu, undelivered = cpu_by_query(summary.reports, {q.name for q in told}), summary.undelivered
    return {
        q.name: QueryProgress(
            str(q.status),
            emitted[q.name],
            q.waiting,
            q.failure or None,
            round(cpu[q.name] * 1000, 3),
            *undelivered.get(q.name, (0, None)),
        )
        for q in told
    }


def _busiest(emitted: Counter[str]) -> list[str]:
    """Queries with results, or those with the most: to tell of 100,000 takes longer than to answer them."""
    names = list(emitted)
    if len(names) <= MOST_QUERIES:
        return names
    rows = np.fromiter(emitted.values(), np.int64, len(names))
    most = np.argpartition(rows, -MOST_QUERIES)[-MOST_QUERIES:]
    return [names[i] for i in most.tolist()]


def _by_name(known: tuple[QueryState, ...]) -> tuple[dict[str, QueryState], dict[str, None]]:
    """States by query, and the queries that are told of without results."""
    global _last
    if _last[0] is not known:
        notable = dict.fromkeys(q.name for q in known if q.waiting or q.failure)
        _last = known, ({q.name: q for q in known}, notable)
    return _last[1]


_last: tuple[object, tuple[dict[str, QueryState], dict[str, None]]] = (None, ({}, {}))
"""Of the states of the last step: mostly nothing comes, goes or waits between two."""


def _state(summary: BatchSummary) -> StateProgress:
    by_state: dict[str, dict[str, int]] = defaultdict(lambda: {"rows": 0, "bytes": 0, "blocks": 0})
    for block in summary.manifest.blocks:
        entry = by_state[block.state]
        entry["rows"] += block.rows
        entry["bytes"] += block.bytes
        entry["blocks"] += 1
    return StateProgress(
        rows=sum(e["rows"] for e in by_state.values()),
        rows_put_off=sum(block.rows for block in summary.manifest.blocks if block.state.is_waiting),
        bytes=sum(e["bytes"] for e in by_state.values()),
        states=dict(by_state),
    )


def _slowest_slot(summary: BatchSummary) -> dict[str, float]:
    """Phases of the slot that took longest: the one the batch waited for."""
    if not summary.reports:
        return {}
    slowest = max(summary.reports, key=lambda r: sum(r.seconds.values()))
    return {phase: round(s * 1000, 1) for phase, s in slowest.seconds.items()}


def _instant(micros: int | None) -> str | None:
    return (
        None
        if micros is None
        else datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")
    )

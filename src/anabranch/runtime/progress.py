"""Progress of a run, one record per batch or further step of it, with the keys PySpark users know."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from anabranch.runtime.batch_loop import BatchSummary


def progress_of(summary: BatchSummary, *, rows_before: int) -> dict[str, Any]:
    """Describe a batch.

    Parameters
    ----------
    rows_before
        Rows that the checkpoint's streams had brought before this batch.
    """
    manifest = summary.manifest
    total = sum(summary.seconds.values())
    rows = sum(s.accepted + s.late + s.rejected for s in manifest.streams) - rows_before
    sites = sorted((s for r in summary.reports for s in r.sites), key=lambda s: s.site)
    return {
        "batchId": manifest.batch,
        "step": manifest.step,
        "timestamp": datetime.fromtimestamp(manifest.committed_at, UTC).isoformat(timespec="milliseconds"),
        "numInputRows": rows,
        "processedRowsPerSecond": round(rows / total, 1) if total else 0.0,
        "durationMs": {phase: round(s * 1000, 1) for phase, s in summary.seconds.items()}
        | {"triggerExecution": round(total * 1000, 1)},
        "criticalPathMs": round(max((s.busy_s for s in sites), default=0.0) * 1000, 1),
        "slotMs": _slowest_slot(summary),
        "streams": {
            s.name: {
                "watermark": _instant(s.watermark),
                "accepted": s.accepted,
                "late": s.late,
                "rejected": s.rejected,
            }
            for s in manifest.streams
        },
        "queries": _queries(summary),
        "state": _state(summary),
        "sites": [
            {
                "site": s.site,
                "busyMs": round(s.busy_s * 1000, 2),
                "rows": s.rows,
                "pairs": s.pairs,
                "results": s.results,
                "stateBytes": s.state_bytes,
                "partitions": [list(p) for p in s.partitions],
            }
            for s in sites
        ],
        "replayed": summary.replayed,
    }


def _queries(summary: BatchSummary) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        q.name: {"status": str(q.status), "numOutputRows": 0} | ({"failure": q.failure} if q.failure else {})
        for q in summary.manifest.queries
    }
    for file in summary.manifest.results:
        found[file.query]["numOutputRows"] += file.rows
    return found


def _state(summary: BatchSummary) -> dict[str, Any]:
    by_state: dict[str, dict[str, int]] = defaultdict(lambda: {"rows": 0, "bytes": 0, "blocks": 0})
    for block in summary.manifest.blocks:
        entry = by_state[block.state]
        entry["rows"] += block.rows
        entry["bytes"] += block.bytes
        entry["blocks"] += 1
    return {
        "numRowsTotal": sum(e["rows"] for e in by_state.values()),
        "memoryUsedBytes": sum(e["bytes"] for e in by_state.values()),
        "states": dict(by_state),
    }


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

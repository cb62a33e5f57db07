"""What each query has taken of a step: its own CPU time, or its share of its group's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from anabranch.engine.reports import SlotReport


def cpu_by_query(reports: Iterable[SlotReport], only: Container[str] | None = None) -> Counter[str]:
    """CPU seconds by query, of all or some. A member takes its group's time by its share of their rows."""
    found = Counter[str]()
    for report in reports:
        for name, seconds in report.query_s.items():
            members = report.given.get(name)
            if members is None:
                found[name] += seconds  # type: ignore[assignment]
                continue
            rows = sum(count for _, count in members)
            for member, count in members:
                if only is not None and member not in only:
                    continue
                found[member] += seconds * count / rows  # type: ignore[assignment]
    return found


def over_cpu_quota(reports: Iterable[SlotReport], quota_ms: int) -> dict[str, str]:
    """Queries that are ended because of the time that they took, and why; 0 is no quota."""
    if not quota_ms:
        return {}
    return {
        name: f"query {name!r} took {seconds * 1000:,.0f} ms of CPU time in one batch, more than "
        f"{quota_ms:,}, and was ended: start it under a new name, with narrower windows or predicates or "
        "a larger quota_cpu_ms"
        for name, seconds in cpu_by_query(reports).items()
        if seconds * 1000 > quota_ms
    }

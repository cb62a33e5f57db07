"""Resident memory of Spark's Python workers, read from /proc.

Blocks are memory-mapped: their pages count as resident file pages of every process that touched them,
although the kernel may drop them at any time. Private (anonymous) memory is what a worker really needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """Bytes of one process."""

    pid: int
    rss: int
    anonymous: int
    file_backed: int
    proportional: int
    """PSS: shared pages divided by the number of processes that share them."""
    peak_rss: int


def python_workers(ancestor: int) -> list[WorkerMemory]:
    """Memory of the Python workers among the descendants of a process, the largest first."""
    found = [m for pid in _descendants(ancestor) if _is_worker(pid) and (m := _memory(pid)) is not None]
    return sorted(found, key=lambda m: -m.rss)


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in (PROC / str(pid) / "task").glob("*"):
        children += [int(child) for child in _read(task / "children").split()]
    return [*children, *(d for child in children for d in _descendants(child))]


def _is_worker(pid: int) -> bool:
    return "pyspark" in _read(PROC / str(pid) / "cmdline") and "java" not in _read(PROC / str(pid) / "comm")


def _memory(pid: int) -> WorkerMemory | None:
    status = _kib_fields(_read(PROC / str(pid) / "status"))
    rollup = _kib_fields(_read(PROC / str(pid) / "smaps_rollup"))
    if "VmRSS" not in status:
        return None  # it ended meanwhile
    return WorkerMemory(
        pid=pid,
        rss=status["VmRSS"],
        anonymous=status.get("RssAnon", 0),
        file_backed=status.get("RssFile", 0) + status.get("RssShmem", 0),
        proportional=rollup.get("Pss", 0),
        peak_rss=status.get("VmHWM", 0),
    )


def _kib_fields(text: str) -> dict[str, int]:
    """Fields of the form `name:  123 kB`, in bytes."""
    fields = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        parts = rest.split()
        if len(parts) == 2 and parts[1] == "kB":
            fields[name] = int(parts[0]) * 1024
    return fields


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

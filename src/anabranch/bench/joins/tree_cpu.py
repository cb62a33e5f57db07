"""CPU time of this process and all below it: the driver, the JVM, Python workers. Linux only."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> tuple[float, float]:
    """Seconds that this process and its descendants have used, and how many of them the JVM."""
    found: dict[int, tuple[str, int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it has just ended
            fields = tail.split()
            used_s = sum(map(int, fields[11:15])) / _TICKS  # of children that have ended, too
            found[int(entry.name)] = head.partition("(")[2], int(fields[1]), used_s
    mine = {os.getpid()}
    while grown := {pid for pid, (_, parent, _) in found.items() if parent in mine} - mine:
        mine |= grown
    used = [(found[pid][0], found[pid][2]) for pid in mine if pid in found]
    return sum(s for _, s in used), sum(s for name, s in used if name == "java")

"""The live screen of a run: one batch in figures, streams, queries, load of the sites, events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from anabranch.cli.figures import bar, count, duration, size, spark_line
from anabranch.runtime.events import Event

HISTORY = 40
SHOWN_SITES = 12
SHOWN_EVENTS = 5
BAR_WIDTH = 24


class Screen:
    """Remembers what the screen shows, and draws it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last: Mapping[str, Any] | None = None
        self._rates: deque[float] = deque(maxlen=HISTORY)
        self._results: Counter[str] = Counter()
        self._events: deque[Event] = deque(maxlen=SHOWN_EVENTS)

    def add_batch(self, progress: Mapping[str, Any]) -> None:
        self._last = progress
        if not progress["replayed"]:
            self._rates.append(progress["processedRowsPerSecond"])
        for name, query in progress["queries"].items():
            self._results[name] += query["numOutputRows"]

    def add_event(self, event: Event) -> None:
        self._events.append(event)

    def render(self) -> RenderableType:
        parts: list[RenderableType] = [
            Text("waiting for the first batch (it takes some seconds) …", style="dim")
        ]
        if self._last is not None:
            parts = [
                self._headline(self._last),
                _streams(self._last["streams"]),
                self._queries(self._last["queries"]),
            ]
            if self._last["sites"]:
                parts.append(_sites(self._last["sites"], self._last["criticalPathMs"]))
        parts += [Text(f"batch {e.batch}: {e.kind}: {e.message}", style="yellow") for e in self._events]
        return Panel(
            Group(*parts),
            title=Text(self._title),
            title_align="left",
            subtitle="Ctrl-C stops",
            subtitle_align="right",
        )

    def _headline(self, progress: Mapping[str, Any]) -> RenderableType:
        state = progress["state"]
        figures = {
            "batch": batch_name(progress),
            "rows": f"{progress['numInputRows']:,}",
            "rows/s": count(progress["processedRowsPerSecond"]),
            "latency": duration(progress["durationMs"].get("triggerExecution", 0.0) / 1000),
            "state": f"{count(state['numRowsTotal'])} rows, {size(state['memoryUsedBytes'])}",
        }
        table = Table.grid(padding=(0, 3))
        table.add_row(
            *(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in figures.items())
        )
        return Group(table, Text.assemble(("rows/s  ", "dim"), (spark_line(self._rates), "cyan")))

    def _queries(self, queries: Mapping[str, Any]) -> Table:
        table = _table("query", "results in batch", "since start", "status")
        for name, query in queries.items():
            failed = query.get("failure")
            status = Text(failed, style="red") if failed else Text(query["status"], style="green")
            table.add_row(Text(name), f"{query['numOutputRows']:,}", f"{self._results[name]:,}", status)
        return table


def batch_name(progress: Mapping[str, Any]) -> str:
    """The number of a batch; further steps, in which rows that waited enter, have their own.

    >>> batch_name({"batchId": 7, "step": 0}), batch_name({"batchId": 7, "step": 2})
    ('7', '7, step 2')
    """
    return f"{progress['batchId']}, step {progress['step']}" if progress["step"] else str(progress["batchId"])


def _streams(streams: Mapping[str, Any]) -> Table:
    table = _table("stream", "accepted", "late", "rejected", "watermark (UTC)", "behind the clock")
    now = datetime.now(UTC)
    for name, stream in streams.items():
        mark = None if stream["watermark"] is None else datetime.fromisoformat(stream["watermark"])
        table.add_row(
            Text(name),
            f"{stream['accepted']:,}",
            *(
                Text(f"{stream[kind]:,}", style="yellow" if stream[kind] else "")
                for kind in ("late", "rejected")
            ),
            "–" if mark is None else mark.strftime("%Y-%m-%d %H:%M:%S"),
            "–" if mark is None else _behind((now - mark).total_seconds()),
        )
    return table


def _behind(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 else f"{duration(-seconds)} ahead"


def _sites(sites: Sequence[Mapping[str, Any]], critical_path_ms: float) -> Table:
    table = Table.grid(padding=(0, 2))
    busiest = max(site["busyMs"] for site in sites) or 1.0
    for site in sites[:SHOWN_SITES]:
        table.add_row(
            Text(f"site {site['site']}", style="dim"),
            Text(bar(site["busyMs"] / busiest, BAR_WIDTH), style="green"),
            f"{site['busyMs']:.0f} ms",
            f"{site['rows']:,} rows",
            f"{site['results']:,} results",
        )
    if len(sites) > SHOWN_SITES:
        rest = f"and {len(sites) - SHOWN_SITES} more; the busiest needed {critical_path_ms:.0f} ms"
        table.add_row("", Text(rest, style="dim"))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or column == "status" else "right")
    return table

"""The live screen of a run: one batch in figures, streams, queries, load of the sites, events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from anabranch.adapt.events import Event
from anabranch.cli.figures import bar, count, duration, size, spark_line
from anabranch.engine.progress import Progress, QueryProgress, SiteProgress, StreamProgress

HISTORY = 40
SHOWN_SITES = 12
SHOWN_EVENTS = 5
BAR_WIDTH = 24


class Screen:
    """Remembers what the screen shows, and draws it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last: Progress | None = None
        self._ended: str | None = None
        self._rates: deque[float] = deque(maxlen=HISTORY)
        self._results: Counter[str] = Counter()
        self._events: deque[Event] = deque(maxlen=SHOWN_EVENTS)

    def add_batch(self, progress: Progress) -> None:
        self._last = progress
        if not progress.replayed:
            self._rates.append(progress.rows_per_second)
        for name, query in progress.queries.items():
            self._results[name] += query.output_rows

    def add_event(self, event: Event) -> None:
        self._events.append(event)

    def end(self, how: str) -> None:
        """The run has ended: its queries no longer run."""
        self._ended = how

    def render(self) -> RenderableType:
        parts: list[RenderableType] = [
            Text("waiting for the first batch (it takes some seconds) …", style="dim")
        ]
        if self._last is not None:
            parts = [
                self._headline(self._last),
                _streams(self._last.streams),
                self._queries(self._last.queries),
            ]
            if self._last.sites:
                parts.append(_sites(self._last.sites, self._last.critical_path_ms))
        parts += [Text(str(event), style="yellow") for event in self._events]
        return Panel(
            Group(*parts),
            title=Text(self._title),
            title_align="left",
            subtitle=self._ended or "Ctrl-C stops",
            subtitle_align="right",
        )

    def _headline(self, progress: Progress) -> RenderableType:
        state = progress.state
        figures = {
            "batch": batch_name(progress),
            "rows": f"{progress.input_rows:,}",
            "rows/s": count(progress.rows_per_second),
            "latency": duration(progress.total_ms / 1000),
            "state": f"{count(state.rows)} rows, {size(state.bytes)}",
        }
        table = Table.grid(padding=(0, 3))
        table.add_row(
            *(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in figures.items())
        )
        return Group(table, Text.assemble(("rows/s  ", "dim"), (spark_line(self._rates), "cyan")))

    def _queries(self, queries: Mapping[str, QueryProgress]) -> Table:
        table = _table("query", "results in batch", "since start", "status")
        for name, query in queries.items():
            status = Text(self._ended or query.status, style="green")
            if query.failure:
                status = Text(query.failure, style="red")
            table.add_row(Text(name), f"{query.output_rows:,}", f"{self._results[name]:,}", status)
        return table


def batch_name(progress: Progress) -> str:
    """The number of a batch; further steps, in which rows that waited enter, have their own."""
    return f"{progress.batch}, step {progress.step}" if progress.step else str(progress.batch)


def _streams(streams: Mapping[str, StreamProgress]) -> Table:
    table = _table("stream", "accepted", "late", "rejected", "watermark (UTC)", "behind the clock")
    now = datetime.now(UTC)
    for name, stream in streams.items():
        mark = None if stream.watermark is None else datetime.fromisoformat(stream.watermark)
        table.add_row(
            Text(name),
            f"{stream.accepted:,}",
            *(Text(f"{n:,}", style="yellow" if n else "") for n in (stream.late, stream.rejected)),
            "–" if mark is None else mark.strftime("%Y-%m-%d %H:%M:%S"),
            "–" if mark is None else _behind((now - mark).total_seconds()),
        )
    return table


def _behind(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 else f"{duration(-seconds)} ahead"


def _sites(sites: Sequence[SiteProgress], critical_path_ms: float) -> Table:
    table = Table.grid(padding=(0, 2))
    busiest = max(site.busy_ms for site in sites) or 1.0
    for site in sites[:SHOWN_SITES]:
        table.add_row(
            Text(f"site {site.site}", style="dim"),
            Text(bar(site.busy_ms / busiest, BAR_WIDTH), style="green"),
            f"{site.busy_ms:.0f} ms",
            f"{site.rows:,} rows",
            f"{site.results:,} results",
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

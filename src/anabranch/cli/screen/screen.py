"""The live screen of a run: one batch in figures, streams, queries, load of the sites, events.

It fits a terminal of 80 columns and 24 lines, however many sites, streams and queries there are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from anabranch.cli.screen.figures import count, duration, size, spark_line
from anabranch.engine.progress import Progress, QueryProgress, SiteProgress, StreamProgress

HISTORY = 60
SHOWN_SITES = 64
"""Bars; of more sites, neighbours share one, which is the busiest of them."""
SHOWN_STREAMS = 4
SHOWN_QUERIES = 4
SHOWN_EVENTS = 4
HISTORICAL_S = 48 * 3600
"""Who is further from the clock replays what has been, and does not lag behind."""


class Screen:
    """Remembers what the screen shows, and draws it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last: Progress | None = None
        self._ended: str | None = None
        self._rates: deque[float] = deque(maxlen=HISTORY)
        self._results: Counter[str] = Counter()
        self._events: deque[str] = deque(maxlen=SHOWN_EVENTS)

    def add_batch(self, progress: Progress) -> None:
        self._last = progress
        if not progress.replayed and progress.input_rows:
            self._rates.append(progress.rows_per_second)
        for name, query in progress.queries.items():
            self._results[name] += query.output_rows

    def add_event(self, line: str) -> None:
        self._events.append(line)

    def end(self, how: str) -> None:
        """The run has ended: its queries no longer run."""
        self._ended = how

    def render(self) -> RenderableType:
        parts: list[RenderableType] = [
            Text("waiting for the first batch (it takes some seconds) …", style="dim")
        ]
        if self._last is not None:
            parts = [
                *self._headline(self._last),
                _streams(self._last.streams),
                self._queries(self._last.queries),
            ]
            if self._last.sites:
                parts += _sites(self._last.sites)
        parts += [_line(event, "yellow") for event in self._events]
        return Panel(
            Group(*parts),
            title=Text(self._title),
            title_align="left",
            subtitle=self._ended or "Ctrl-C stops",
            subtitle_align="right",
        )

    def _headline(self, progress: Progress) -> list[Text]:
        state = progress.state
        figures = (
            ("batch ", batch_name(progress)),
            ("  rows ", f"{progress.input_rows:,}"),
            ("  rows/s ", count(progress.rows_per_second)),
            ("  took ", duration(progress.total_ms / 1000)),
            ("  state ", f"{count(state.rows)} rows, {size(state.bytes)}"),
        )
        headline = _line("", "")
        for name, value in figures:
            headline.append(name, "dim").append(value, "bold")
        rates = _line("rows/s ", "dim").append(spark_line(self._rates), "cyan")
        return [headline, rates]

    def _queries(self, queries: Mapping[str, QueryProgress]) -> Table:
        table = _table("query", "results in batch", "since start", "status")
        for name, query in list(queries.items())[:SHOWN_QUERIES]:
            status = _line(self._ended or query.status, "green")
            if query.failure:
                status = _line(query.failure, "red")
            table.add_row(_line(name, ""), f"{query.output_rows:,}", f"{self._results[name]:,}", status)
        return _and_more(table, len(queries) - SHOWN_QUERIES)


def batch_name(progress: Progress) -> str:
    """The number of a batch; further steps, in which rows that waited enter, have their own."""
    return f"{progress.batch}, step {progress.step}" if progress.step else str(progress.batch)


def _streams(streams: Mapping[str, StreamProgress]) -> Table:
    table = _table("stream", "accepted", "late", "rejected", "watermark (UTC)", "behind the clock")
    now = datetime.now(UTC)
    for name, stream in list(streams.items())[:SHOWN_STREAMS]:
        mark = None if stream.watermark is None else datetime.fromisoformat(stream.watermark)
        table.add_row(
            _line(name, ""),
            count(stream.accepted),
            *(Text(count(n), style="yellow" if n else "") for n in (stream.late, stream.rejected)),
            "–" if mark is None else mark.strftime("%Y-%m-%d %H:%M:%S"),
            "–" if mark is None else behind((now - mark).total_seconds()),
        )
    return _and_more(table, len(streams) - SHOWN_STREAMS)


def behind(seconds: float) -> str:
    """How far a watermark is behind the clock, if it follows the clock.

    >>> behind(5), behind(-90), behind(9449 * 86400)
    ('5.0 s', '1 min 30 s ahead', 'historical')
    """
    if abs(seconds) > HISTORICAL_S:
        return "historical"
    return duration(seconds) if seconds >= 0 else f"{duration(-seconds)} ahead"


def _sites(sites: Sequence[SiteProgress]) -> list[Text]:
    """The load of all sites in a line of bars, and the busiest in figures."""
    busy = [site.busy_ms for site in sites]
    together = -(-len(busy) // SHOWN_SITES)
    bars = spark_line([max(busy[i : i + together]) for i in range(0, len(busy), together)])
    busiest = max(sites, key=lambda site: site.busy_ms)
    mean = sum(busy) / len(busy)
    told = (
        f"{len(sites)} sites, busiest {busiest.site}: {busiest.busy_ms:.0f} ms, {busiest.rows:,} rows, "
        f"{busiest.busy_ms / mean if mean else 1.0:.1f}× the mean"
    )
    return [_line("sites  ", "dim").append(bars, "green"), _line(told, "dim")]


def _line(text: str, style: str) -> Text:
    """Text that stays on one line."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _and_more(table: Table, more: int) -> Table:
    if more > 0:
        table.add_row(Text(f"and {more} more", style="dim"))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(
            column, justify="left" if number == 0 or column == "status" else "right", no_wrap=True
        )
    return table

"""Three ways to show a run: a live screen, a line per batch, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from anabranch.cli.figures import count, duration, size
from anabranch.cli.screen import Screen, batch_name
from anabranch.runtime.events import Event


class RunView(Protocol):
    """A view of a whole run; batches and events come while it is entered."""

    def note(self, text: str) -> None:
        """Tell what is going on before the first batch."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def batch(self, progress: Mapping[str, Any]) -> None:
        """Show a committed batch."""

    def event(self, event: Event) -> None:
        """Show an event."""

    def end(self, event: Event) -> None:
        """Say how it ended."""


def choose_view(*, title: str, as_json: bool, console: Console | None = None) -> RunView:
    """The view that suits the caller: JSON if asked for, a live screen on a terminal, else lines."""
    if as_json:
        return JsonView()
    console = console or Console()
    return LiveView(title, console) if console.is_terminal else LineView(console)


class JsonView:
    """One JSON object per batch and event on standard output, and nothing else there."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._redirect = ExitStack()

    def note(self, text: str) -> None:
        """Machines need no notes."""

    def __enter__(self) -> Self:
        # A console sink prints in this process: it must not end up between the objects.
        self._redirect.enter_context(redirect_stdout(sys.stderr))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redirect.close()

    def batch(self, progress: Mapping[str, Any]) -> None:
        self._write({"type": "batch", **progress})

    def event(self, event: Event) -> None:
        self._write({"type": "event", **event.to_json()})

    def end(self, event: Event) -> None:
        self.event(event)

    def _write(self, record: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._out.flush()


class LineView:
    """One line per batch, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        self._print(Text(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to tidy."""

    def batch(self, progress: Mapping[str, Any]) -> None:
        self._print(Text(batch_line(progress)))

    def event(self, event: Event) -> None:
        self._print(Text(f"batch {event.batch}: {event.kind}: {event.message}"))

    def end(self, event: Event) -> None:
        self._print(Text(event.message[:1].upper() + event.message[1:]))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


class LiveView(LineView):
    """A screen that is redrawn at every batch; what sinks print scrolls by above it."""

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(console)
        self._screen = Screen(title)
        self._live = Live(
            get_renderable=self._screen.render, console=console, auto_refresh=True, refresh_per_second=4
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def batch(self, progress: Mapping[str, Any]) -> None:
        self._screen.add_batch(progress)
        self._live.refresh()

    def event(self, event: Event) -> None:
        self._screen.add_event(event)


def batch_line(progress: Mapping[str, Any]) -> str:
    """A batch on one line."""
    batch = batch_name(progress)
    if progress["replayed"]:
        return f"batch {batch}: committed before a restart, results published"
    state, streams = progress["state"], progress["streams"].values()
    results = ", ".join(f"{name} {q['numOutputRows']:,}" for name, q in progress["queries"].items())
    refused = "".join(
        f" · {total:,} {kind} so far"
        for kind in ("late", "rejected")
        if (total := sum(stream[kind] for stream in streams))
    )
    return (
        f"batch {batch}: {progress['numInputRows']:,} rows"
        f" in {duration(progress['durationMs']['triggerExecution'] / 1000)}"
        f" ({count(progress['processedRowsPerSecond'])} rows/s)"
        f" · state {count(state['numRowsTotal'])} rows, {size(state['memoryUsedBytes'])}"
        f" · results: {results}{refused}"
    )

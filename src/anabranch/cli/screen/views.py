"""Three ways to show a run: a live screen, a line per batch, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from anabranch.adapt.events import Event
from anabranch.cli.screen.figures import count, duration, size
from anabranch.cli.screen.rounds import round_lines
from anabranch.cli.screen.screen import Screen, batch_name
from anabranch.engine.listener import Listener
from anabranch.engine.progress import Progress
from anabranch.errors import AnabranchError


class RunView(Listener):
    """A view of a whole run: a listener that also tells what comes before it and after it."""

    def note(self, text: str) -> None:
        """Tell what is going on before the first batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to tidy."""

    def stopped(self) -> None:
        """Somebody has stopped the run."""

    def last_word(self, event: Event) -> None:
        """Say how it ended, and what to do next."""


def choose_view(*, title: str, as_json: bool, console: Console | None = None) -> RunView:
    """The view that suits the caller: JSON if asked for, a live screen on a terminal, else lines."""
    if as_json:
        return JsonView()
    console = console or Console()
    return LiveView(title, console) if console.is_terminal else LineView(console)


class JsonView(RunView):
    """One JSON object per batch and event on standard output, and nothing else there."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._redirect = ExitStack()

    def __enter__(self) -> Self:
        # A console sink prints in this process: it must not end up between the objects.
        self._redirect.enter_context(redirect_stdout(sys.stderr))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redirect.close()

    def on_progress(self, progress: Progress) -> None:
        self._write({"type": "batch", **progress.to_json()})

    def on_event(self, event: Event) -> None:
        self._write({"type": "event", **event.to_json()})

    def last_word(self, event: Event) -> None:
        self.on_event(event)

    def _write(self, record: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._out.flush()


class LineView(RunView):
    """One line per batch, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._round: list[Event] = []
        """What was decided after the batch whose progress is told next."""

    def note(self, text: str) -> None:
        self._print(Text(text))

    def on_progress(self, progress: Progress) -> None:
        self._tell_round()
        self._print(Text(batch_line(progress)))

    def on_event(self, event: Event) -> None:
        if event.kind.is_decision:
            self._round.append(event)
        else:
            self._tell(str(event))

    def on_end(self, error: AnabranchError | None) -> None:
        self._tell_round()

    def _tell_round(self) -> None:
        for line in round_lines(self._round):
            self._tell(line)
        self._round.clear()

    def _tell(self, line: str) -> None:
        self._print(Text(line))

    def last_word(self, event: Event) -> None:
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

    def on_progress(self, progress: Progress) -> None:
        self._tell_round()
        self._screen.add_batch(progress)
        self._live.refresh()

    def on_end(self, error: AnabranchError | None) -> None:
        super().on_end(error)
        self._screen.end("done" if error is None else "failed")
        self._live.refresh()

    def stopped(self) -> None:
        self._screen.end("stopped")

    def _tell(self, line: str) -> None:
        self._screen.add_event(line)


def batch_line(progress: Progress) -> str:
    """A batch on one line."""
    batch = batch_name(progress)
    if progress.replayed:
        return f"batch {batch}: committed before a restart, results published"
    streams, state = progress.streams.values(), progress.state
    results = ", ".join(f"{name} {q.output_rows:,}" for name, q in progress.queries.items())
    counts = {
        "late": sum(s.late for s in streams),
        "refused": sum(s.refused for s in streams),
        "rejected": sum(s.rejected for s in streams),
    }
    refused = "".join(f" · {total:,} {kind} so far" for kind, total in counts.items() if total)
    return (
        f"batch {batch}: {progress.input_rows:,} rows in {duration(progress.total_ms / 1000)}"
        f" ({count(progress.rows_per_second)} rows/s)"
        f" · state {count(state.rows)} rows, {size(state.bytes)}"
        f" · results: {results}{refused}"
    )

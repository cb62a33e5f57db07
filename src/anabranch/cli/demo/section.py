"""Sections of the demo: a heading, and what goes on, from the first second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from rich.console import Console

from anabranch.cli.screen.figures import duration


class Sections:
    """Numbers headings, and says what is going on and how long it took."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._numbers = count(1)
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the beginning of the demo."""
        return time.perf_counter() - self._began

    def begin(self, title: str, text: str = "") -> None:
        """A new section."""
        at = f" [dim]after {duration(self.seconds)}[/]" if self.seconds > 1 else ""
        self.console.print(f"\n[bold]{next(self._numbers)}  {title}[/]{at}", highlight=False)
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        """A paragraph of the section."""
        for line in text.splitlines():
            self.console.print(f"   {line}", highlight=False, soft_wrap=True)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Say what goes on while it does: a moving sign on a terminal, else a line."""
        began = time.perf_counter()
        if self.console.is_terminal:
            with self.console.status(f"{what} …"):
                yield
            self.say(f"[dim]{what}: {duration(time.perf_counter() - began)}[/]")
        else:
            self.say(f"{what} …")
            yield

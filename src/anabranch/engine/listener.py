"""The listener: whoever wants to know what a run does, while it does it."""

from __future__ import annotations

from anabranch.adapt.events import Event
from anabranch.engine.progress import Progress
from anabranch.errors import AnabranchError


class Listener:
    """Override what you want to hear, and pass an object to `session.start(listeners=[…])`.

    Calls come one at a time, in order, from threads of the run: return soon. The next batch waits. What a
    listener raises is logged (`logging`, logger `anabranch`) and changes nothing.

    Examples
    --------
    >>> class Rows(Listener):
    ...     total = 0
    ...
    ...     def on_progress(self, progress):
    ...         self.total += progress.input_rows
    """

    def on_progress(self, progress: Progress) -> None:
        """A step has committed, and its results are in the sinks."""

    def on_event(self, event: Event) -> None:
        """Something happened beside rows; events of a step come before its progress."""

    def on_end(self, error: AnabranchError | None) -> None:
        """The run has ended; `error` is why, if it failed. Nothing comes after it."""

"""Following a run until it ends or someone asks to stop; what it does, its listeners are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.cli.stop_request import StopRequest
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.spark.run import Run

POLL_SECONDS = 0.2


def follow(run: Run, stop: StopRequest) -> None:
    """Wait until `run` ends, fails (then raise why) or is asked to stop."""
    try:
        while not run.awaitTermination(POLL_SECONDS):
            if stop.signal is not None:
                run.stop()
                return
    except AnabranchError:
        # A signal to the whole process group also ends Spark's workers, and with them the batch under way.
        if stop.signal is None:
            raise

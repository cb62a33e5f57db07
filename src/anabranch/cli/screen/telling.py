"""Failures on the command line: one clear message, an exit code, and no stack trace unless asked for.

| exit code | meaning |
|---|---|
| 0 | done, or a run without end was stopped by its user |
| 1 | something outside the flow file failed |
| 2 | the flow file or the arguments are wrong |
| 130, 143 | `--available-now` was stopped by Ctrl-C or SIGTERM before it was through |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from anabranch.errors import AnabranchError, QueryError

FAILED = 1
WRONG_INPUT = 2

Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of a failure, and Spark's log.")]
"""The option that every command has."""


class InputError(AnabranchError):
    """The arguments of a command are wrong."""


@contextmanager
def telling(*, debug: bool) -> Iterator[None]:
    """Turn an error of ours into its message on standard error and an exit code."""
    try:
        yield
    except AnabranchError as error:
        if debug:
            raise
        tell(error)
        raise typer.Exit(WRONG_INPUT if isinstance(error, QueryError | InputError) else FAILED) from None


def tell(error: AnabranchError) -> None:
    """Print an error; the offending line and its caret are not wrapped, whatever the terminal."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), str(error)))
    sys.stderr.flush()

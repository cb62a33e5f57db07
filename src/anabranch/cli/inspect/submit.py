"""`anabranch submit` and `anabranch drop`: queries come to, and go from, a session that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.inspect.state import check_is_checkpoint
from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.language.flow import parse_flow
from anabranch.state import Manifest, PosixStorage, newest

if TYPE_CHECKING:
    from anabranch.engine.live.mailbox import Letter

Checkpoint = Annotated[Path, typer.Argument(help="Directory that `run --checkpoint` was given.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the session's answer.", min=0)]


def submit(
    checkpoint: Checkpoint,
    flow: Annotated[Path, typer.Argument(help="File with CREATE QUERY … INTO … AS … statements.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Queries that are there get the text of the file.")
    ] = False,
    timeout: Timeout = 60,
    debug: Debug = False,
) -> None:
    """Let the queries of a file run in the session of a checkpoint, from its next batch on."""
    from anabranch.engine.live.mailbox import Letter
    from anabranch.queries.reconcile import known_streams

    with telling(debug=debug):
        manifest = _manifest(checkpoint)
        try:
            text = flow.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read {flow}: {error.strerror}") from error
        parsed = parse_flow(text, path=str(flow), known=known_streams(manifest))
        if parsed.streams or parsed.settings:
            raise InputError(f"{flow} has more than CREATE QUERY: streams and settings need a new start")
        if not parsed.queries:
            raise InputError(f"{flow} has no CREATE QUERY")
        there = {state.name for state in manifest.queries}
        letters = [
            Letter("replace" if replace and q.name in there else "add", q.name, q.text, q.sink)
            for q in parsed.queries
        ]
        _send(checkpoint, letters, timeout)


def drop(
    checkpoint: Checkpoint,
    query: Annotated[list[str], typer.Argument(help="Names of queries.")],
    timeout: Timeout = 60,
    debug: Debug = False,
) -> None:
    """Let queries of a running session end with its next step."""
    from anabranch.engine.live.mailbox import Letter

    with telling(debug=debug):
        _manifest(checkpoint)
        _send(checkpoint, [Letter("drop", name) for name in query], timeout)


def _manifest(checkpoint: Path) -> Manifest:
    check_is_checkpoint(checkpoint)
    manifest = newest(PosixStorage(checkpoint))
    if manifest is None:
        raise InputError(f"{checkpoint}: no batch has been committed yet: wait for the first one")
    return manifest


def _send(checkpoint: Path, letters: list[Letter], timeout: float) -> None:
    """Post all letters, and tell what became of each."""
    from anabranch.engine.live.mailbox import await_answer, post

    storage = PosixStorage(checkpoint)
    posted = [(letter, post(storage, letter)) for letter in letters]
    for letter, name in posted:
        if await_answer(storage, name, timeout_s=timeout):
            done = {"add": "runs", "drop": "has ended", "replace": "goes on with its new text"}
            typer.echo(f"{letter.query} {done[letter.action]}")
        else:
            typer.echo(
                f"{letter.query}: no session has answered within {timeout:g} s: the letter waits in the "
                "checkpoint for the next boundary of a session"
            )

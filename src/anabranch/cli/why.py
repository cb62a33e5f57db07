"""What a running or finished session decided, and with which numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from anabranch.cli.telling import InputError
from anabranch.state import PosixStorage, newest


def show_decisions(checkpoint: Path, *, as_json: bool) -> None:
    """Print the last decisions: moves accepted and refused, their reasons, what came of them."""
    manifest = newest(PosixStorage(checkpoint)) if checkpoint.is_dir() else None
    if manifest is None:
        raise InputError(f"{checkpoint} holds no committed batch: give the directory of --checkpoint")
    events = manifest.controller.get("events", ())
    if not events and not as_json:
        typer.echo("nothing was decided: the load is even, or rebalance is off")
    for event in events:
        typer.echo(json.dumps(event, ensure_ascii=False) if as_json else _line(event))


def _line(event: dict[str, Any]) -> str:
    return f"batch {event['at']:g}  {event['kind']}  {event['message']}"

"""`anabranch state`: what a checkpoint holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anabranch.cli.screen.figures import count, duration, instant, size
from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.state import PosixStorage
from anabranch.state.inspect import describe
from anabranch.state.paths import DEAD_LETTERS, EPOCHS, LOCK, MANIFESTS

SHOWN = 20
"""Refused rows in a table."""


def state(
    checkpoint: Annotated[Path, typer.Argument(help="Directory that `run --checkpoint` was given.")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Show the rows that were refused.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help=f"Refused rows to show; default {SHOWN}, with --json all.", min=1)
    ] = None,
    debug: Debug = False,
) -> None:
    """Show streams, states, queries and health of a checkpoint; it may be in use."""
    with telling(debug=debug):
        check_is_checkpoint(checkpoint)
        if dead_letters:
            _show_dead_letters(checkpoint, limit, as_json=as_json)
            return
        found = describe(PosixStorage(checkpoint))
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _show(checkpoint, found)
    if not _healthy(found):
        raise typer.Exit(1)


def check_is_checkpoint(path: Path) -> None:
    """Refuse a directory that is none."""
    if not path.is_dir():
        raise InputError(f"there is no checkpoint {path}: give the directory that --checkpoint named")
    if not any((path / part).exists() for part in (LOCK, EPOCHS, MANIFESTS)):
        raise InputError(f"{path} is no checkpoint of Anabranch: it has neither manifests nor a lock")


def _healthy(found: Mapping[str, Any]) -> bool:
    return bool(found["chain"]["verified"]) and not found["missing"]


def _show(checkpoint: Path, found: Mapping[str, Any]) -> None:
    console = Console(soft_wrap=True)
    newest = found["newest"]
    if newest is None:
        console.print(f"{checkpoint}: no batch has been committed yet", highlight=False)
        return
    step = f" step {newest['step']}" if newest["step"] else ""
    committed = instant(int(newest["committed_at"] * 1e6))
    console.print(
        f"{checkpoint}: batch {newest['batch']}{step}, committed {committed} UTC, "
        f"{newest['sites']} sites, {newest['partitions']} partitions, writer epoch {found['writer_epoch']}",
        highlight=False,
    )
    for table in (_streams(newest["streams"]), _states(newest["states"]), _queries(newest)):
        console.print()
        console.print(table)
    console.print()
    _show_health(console, found)


def _streams(streams: Mapping[str, Any]) -> Table:
    table = _table("stream", "watermark (UTC)", "newest event (UTC)", "accepted", "late", "rejected")
    for name, s in streams.items():
        counts = (f"{s[kind]:,}" for kind in ("accepted", "late", "rejected"))
        table.add_row(Text(name), _second(s["watermark"]), _second(s["max_ts"]), *counts)
    return table


def _states(states: Mapping[str, Any]) -> Table:
    table = _table("state", "rows", "bytes", "blocks", "from (UTC)", "span")
    for name, s in states.items():
        span = duration((s["max_ts"] - s["min_ts"]) / 1e6)
        table.add_row(
            Text(name), f"{s['rows']:,}", size(s["bytes"]), str(s["blocks"]), _second(s["min_ts"]), span
        )
    if len(states) > 1:
        table.add_section()
        total = {key: sum(s[key] for s in states.values()) for key in ("rows", "bytes", "blocks")}
        table.add_row("all", f"{total['rows']:,}", size(total["bytes"]), str(total["blocks"]), "", "")
    return table


def _queries(newest: Mapping[str, Any]) -> Table:
    table = _table("query", "since batch", "results in last batch", "status")
    for name, q in newest["queries"].items():
        status = q["status"] if q["failure"] is None else f"{q['status']}: {q['failure']}"
        rows = newest["results"].get(name, {"rows": 0})["rows"]
        table.add_row(Text(name), str(q["since"]), f"{rows:,}", Text(status))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or column == "status" else "right")
    return table


def _second(micros: int | None) -> str:
    """An event time without its fraction."""
    return instant(micros).partition(".")[0]


def _show_health(console: Console, found: Mapping[str, Any]) -> None:
    chain, orphans = found["chain"], found["orphans"]
    if chain["verified"]:
        console.print(f"{chain['manifests']} manifests, chain verified", highlight=False)
    else:
        console.print(Text(f"damaged: {chain['problem']}", style="red"), soft_wrap=True)
    if found["missing"]:
        names = ", ".join(found["missing"][:5]) + (" …" if len(found["missing"]) > 5 else "")
        message = f"damaged: {len(found['missing'])} files are missing: {names}. Restore them from a backup"
        console.print(Text(message, style="red"), soft_wrap=True)
    if orphans["files"]:
        left = f"{orphans['files']} files ({size(orphans['bytes'])})"
        console.print(f"{left} that no manifest names; the next run removes them", highlight=False)


def _show_dead_letters(checkpoint: Path, limit: int | None, *, as_json: bool) -> None:
    files = sorted((checkpoint / DEAD_LETTERS).glob("*.parquet"))
    if as_json:
        rows = (row for file in files for row in pq.read_table(file).to_pylist())
        for row in islice(rows, limit):
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    if not files:
        typer.echo("no row was refused")
        return
    refused = sum(pq.read_metadata(file).num_rows for file in files)
    shown = min(limit or SHOWN, refused)
    table = Table("stream", "reason", "batch", "event time (UTC)", "row")
    for row in _first_rows(files, shown):
        when = _event_time(row["event_time_us"])
        table.add_row(
            Text(row["stream"]), Text(row["reason"]), str(row["batch"]), when, Text(str(row["row"]))
        )
    console = Console()
    console.print(table)
    console.print(
        f"{shown} of {count(refused)} refused rows, from {checkpoint / DEAD_LETTERS}", highlight=False
    )


def _first_rows(files: list[Path], limit: int) -> list[dict[str, Any]]:
    tables: list[pa.Table] = []
    for file in files:
        tables.append(pq.read_table(file))
        if sum(t.num_rows for t in tables) >= limit:
            break
    rows: list[dict[str, Any]] = pa.concat_tables(tables).slice(0, limit).to_pylist()
    return rows


def _event_time(micros: int | None) -> str:
    """Refused rows may carry any number: show one that is no date as it is."""
    try:
        return instant(micros)
    except (OverflowError, ValueError, OSError):
        return str(micros)

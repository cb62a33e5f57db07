"""What a running or finished session knows of its plans, what it decided, and with which numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from anabranch.adapt.events import EventKind
from anabranch.adapt.routing.join_routing import JoinRouting
from anabranch.cli.screen.telling import InputError
from anabranch.engine.boundary.plans_seen import plans_seen
from anabranch.engine.json_log import EVENT_LOG, PROGRESS_LOG, read_log
from anabranch.state import Manifest, PosixStorage, newest

DECISIONS = frozenset(str(kind) for kind in EventKind if kind.is_decision)


def show_decisions(checkpoint: Path, *, query: str | None = None, as_json: bool) -> None:
    """Print the candidate plans, then the last decisions: accepted and refused, why, what came of them."""
    manifest = newest_manifest(checkpoint)
    names = [q.name for q in manifest.queries]
    chosen = names if query is None else [name for name in names if name.lower() == query.lower()]
    if not chosen:
        raise InputError(
            f"there is no query {query!r} in {checkpoint}: choose from {', '.join(names) or 'none'}"
        )
    for plans in plans_seen(manifest):
        if plans.query in chosen:
            typer.echo(json.dumps(plans.to_json(), ensure_ascii=False) if as_json else plans.to_text() + "\n")
    for batch, join in routing_seen(checkpoint):
        if join.query in chosen:
            known = {"at": batch, "kind": "routing", **join.to_json()}
            typer.echo(
                json.dumps(known, ensure_ascii=False) if as_json else _routing_line(batch, join) + "\n"
            )
    for weighed in orderings_seen(manifest):
        if weighed["query"] in chosen:
            typer.echo(json.dumps(weighed, ensure_ascii=False) if as_json else _ordering(weighed) + "\n")
    # What moves between sites moves for all queries, and names none.
    events = [e for e in decisions(checkpoint, manifest) if e.get("query") in (None, *chosen)]
    if not events and not as_json:
        typer.echo("nothing was decided: the load is even, or rebalance is off")
    for event in events:
        typer.echo(json.dumps(event, ensure_ascii=False) if as_json else _line(event))


def decisions(checkpoint: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """All decisions, oldest first: those of the log, and what a crash has kept from it.

    The manifest has the newest ones.
    """
    logged = [e for e in read_log(PosixStorage(checkpoint), EVENT_LOG) if _is_decision(e)]
    known = {json.dumps(event, sort_keys=True) for event in logged}
    kept = manifest.controller.get("events", ())
    return logged + [e for e in kept if json.dumps(e, sort_keys=True) not in known]


def _is_decision(event: dict[str, Any]) -> bool:
    return event.get("kind") in DECISIONS


def plans_of(checkpoint: Path, query: str) -> str | None:
    """The candidate plans of a query, and ways to run, in words; None where there is but one."""
    manifest = newest_manifest(checkpoint)
    plans = [plans.to_text() for plans in plans_seen(manifest) if plans.query == query]
    ways = [_ordering(weighed) for weighed in orderings_seen(manifest) if weighed["query"] == query]
    return "\n".join((*plans, *ways)) or None


def orderings_seen(manifest: Manifest) -> list[dict[str, Any]]:
    """Of joins that can run on one site and at stations: how they run, and what each way would take."""
    layouts = manifest.controller.get("layouts", {})
    held = layouts.get("held", {})
    seen = [{"kind": "orderings", "at": manifest.batch, **weighed} for weighed in layouts.get("weighed", ())]
    return [told | ({"heldUp": held[told["query"]]} if told["query"] in held else {}) for told in seen]


def _ordering(weighed: dict[str, Any]) -> str:
    lines = [f"query {weighed['query']}: ways to run as last seen, after batch {weighed['at']}; ms per batch"]
    for way, cost in sorted(weighed["costsMs"].items(), key=lambda item: item[1]):
        lines.append(f"    {way:<11}  {cost:<9.3g}{'  runs' if way == weighed['runs'] else ''}".rstrip())
    if "heldUp" in weighed:
        lines.append(f"  a change has to wait: {weighed['heldUp']}")
    return "\n".join(lines)


def routing_seen(checkpoint: Path) -> list[tuple[int, JoinRouting]]:
    """The joins whose rows were spread when rows last came, and the batch that told it."""
    newest: dict[str, Any] = {}
    for record in read_log(PosixStorage(checkpoint), PROGRESS_LOG):
        newest = record if record.get("numInputRows") else newest
    return [(newest["batchId"], JoinRouting.from_json(join)) for join in newest.get("routing", ())]


def routing_of(checkpoint: Path, query: str) -> str | None:
    """How the rows of a query are spread, in words; None where they are not."""
    return next((_routing_line(b, join) for b, join in routing_seen(checkpoint) if join.query == query), None)


def _routing_line(batch: int, join: JoinRouting) -> str:
    return f"query {join.query}: routing in batch {batch}: {join}"


def newest_manifest(checkpoint: Path) -> Manifest:
    """The last committed batch of a checkpoint."""
    manifest = newest(PosixStorage(checkpoint)) if checkpoint.is_dir() else None
    if manifest is None:
        raise InputError(f"{checkpoint} holds no committed batch: give the directory of --checkpoint")
    return manifest


def _line(event: dict[str, Any]) -> str:
    return f"batch {event['batch']}  {event['kind']}  {event['message']}"

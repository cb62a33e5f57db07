"""`anabranch queries`: the queries of a session, and what each of them costs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anabranch.cli.inspect.state import check_is_checkpoint
from anabranch.cli.screen.figures import count, size
from anabranch.cli.screen.telling import Debug, telling
from anabranch.engine.json_log import PROGRESS_LOG, read_log
from anabranch.engine.sinks.backlog import owed_results
from anabranch.language.flow import bind_query
from anabranch.state import Manifest, PosixStorage, Storage, newest


@dataclass(frozen=True, slots=True)
class QueryCost:
    """A query and what it takes.

    Attributes
    ----------
    since
        Its first batch.
    results, cpu_ms
        Rows that it has given and CPU time that it took, as far as the log of progress goes back, which tells
        of the 10,000 queries with the most results in a step. Members
        of a group share its time by the rows they got.
    state_bytes
        Its share of the state: what several queries read is shared out evenly.
    undelivered, sink_failure
        Results that its sink has not taken, with those of others that share it, and why.
    """

    query: str
    status: str
    since: int
    results: int
    cpu_ms: float
    state_bytes: int
    text: str
    failure: str | None = None
    undelivered: int = 0
    sink_failure: str | None = None


def queries(
    checkpoint: Annotated[Path, typer.Argument(help="Directory that `run --checkpoint` was given.")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    debug: Debug = False,
) -> None:
    """Show the queries of a session, those that came while it ran included; it may be running."""
    with telling(debug=debug):
        check_is_checkpoint(checkpoint)
        storage = PosixStorage(checkpoint)
        manifest = newest(storage)
        costs = [] if manifest is None else query_costs(storage, manifest)
    if as_json:
        typer.echo(json.dumps([asdict(cost) for cost in costs], indent=2, ensure_ascii=False))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("query")
    table.add_column("status")
    for column in ("since batch", "results", "CPU", "state"):
        table.add_column(column, justify="right")
    table.add_column("text", overflow="ellipsis", no_wrap=True)
    for c in costs:
        figures = (f"{c.since}", count(c.results), f"{c.cpu_ms:,.0f} ms", size(c.state_bytes))
        status = (
            c.status if c.sink_failure is None else f"{c.status}, sink waits: {count(c.undelivered)} results"
        )
        table.add_row(Text(c.query), status, *figures, Text(" ".join(c.text.split())))
    console = Console()
    console.print(table)
    for c in costs:
        if why := c.failure or c.sink_failure:
            console.print(Text(why if c.failure else f"query {c.query!r}: its sink fails: {why}"))


def query_costs(storage: Storage, manifest: Manifest) -> list[QueryCost]:
    """What every query of the newest step has given and keeps."""
    given, cpu = Counter[str](), defaultdict[str, float](float)
    for record in read_log(storage, PROGRESS_LOG):
        for name, told in record.get("queries", {}).items():
            given[name] += told["numOutputRows"]
            cpu[name] += told.get("cpuMs", 0.0)
    kept, groups = _state_bytes(manifest), manifest.catalog.get("groups", {})
    known = manifest.catalog["queries"]
    waiting: dict[str, tuple[int, str]] = {}
    for owed in owed_results(storage):
        waiting[owed.owner] = (waiting.get(owed.owner, (0, ""))[0] + owed.rows, owed.why)
    return [
        QueryCost(
            q.name,
            str(q.status),
            q.since,
            given[q.name],
            round(cpu[q.name], 1),
            round(kept[q.name]),
            known[q.name]["text"],
            q.failure,
            *waiting.get(known[q.name].get("place", q.name), (0, None)),
        )
        for q in manifest.queries
        if q.name not in groups
    ]


def _state_bytes(manifest: Manifest) -> dict[str, float]:
    from anabranch.engine.step.manifests.retention import states_of
    from anabranch.queries.reconcile import known_streams, reconcile

    streams, groups = known_streams(manifest), manifest.catalog.get("groups", {})
    queries = {name: q for name, q in manifest.catalog["queries"].items() if name not in groups}
    bound = [bind_query(name, known["text"], streams) for name, known in queries.items()]
    catalog = reconcile(tuple(streams.values()), bound, manifest)
    readers: dict[str, list[str]] = {}
    for plan in catalog.plans:
        for state in states_of([plan]):
            members = groups.get(plan.query.name, {}).get("members", (plan.query.name,))
            readers.setdefault(state, []).extend(members)
    kept = dict.fromkeys((q.name for q in bound), 0.0)
    for block in manifest.blocks:
        for name in readers.get(block.state, ()):
            kept[name] += block.bytes / len(readers[block.state])
    return kept

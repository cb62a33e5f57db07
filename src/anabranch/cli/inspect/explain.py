"""`anabranch explain`: how the queries of a flow file will run, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.flow_file import read_flow
from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.engine.settings import Settings
from anabranch.exchange.address import PARTITIONS


def explain(
    flow: Annotated[
        Path,
        typer.Argument(metavar="FLOW.SQL", help="The queries; with --why, a checkpoint instead."),
    ],
    query: Annotated[str | None, typer.Option(help="Only this query.")] = None,
    sites: Annotated[
        int | None, typer.Option(help="Logical workers, as for `run`.", min=1, max=PARTITIONS)
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="What the session on this checkpoint decided, and why.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Besides, as seen there: what other plans there are and what each would take, and how rows "
            "are spread."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --why: one object per line.")] = False,
    debug: Debug = False,
) -> None:
    """Show keys, routing, join trees and states of the queries of a flow file; or, what was decided since."""
    # Half a second of imports that other commands need later or not at all.
    from anabranch.cli.inspect.why import plans_of, routing_of, show_decisions
    from anabranch.queries.catalog import explain_query
    from anabranch.queries.reconcile import reconcile

    with telling(debug=debug):
        _check_combination(why=why, sites=sites, checkpoint=checkpoint, as_json=as_json)
        if why:
            show_decisions(flow, query=query, as_json=as_json)
            return
        declared = read_flow(flow)
        unbound = dict(declared.unbound)
        chosen = _chosen([*(q.name for q in declared.queries), *unbound], query, flow)
        settings = Settings().with_values(declared.settings)
        # One site per core is decided when Spark has started; this machine's cores are the best guess.
        number = sites or settings.resolved(_cores()).sites
        chosen_settings = replace(settings, sites=number)
        catalog = reconcile(
            declared.streams,
            declared.queries,
            None,
            stations=chosen_settings.uses_stations,
            eddies=chosen_settings.uses_eddies,
        )
        told = []
        for name in chosen:
            if name in unbound:
                told.append(f"query {name}: its plan is known when Spark has started\n{unbound[name]}")
                continue
            told.append(explain_query(catalog, name, sites=number))
            if checkpoint is not None:
                seen = (plans_of(checkpoint, name), routing_of(checkpoint, name))
                told += [text for text in seen if text is not None]
        typer.echo("\n\n".join(told))


def _chosen(names: Sequence[str], query: str | None, flow: Path) -> list[str]:
    """The queries to explain."""
    if not names:
        raise InputError(f"{flow} has no query to explain: add CREATE QUERY name INTO console AS SELECT …")
    found = [name for name in names if query is None or name.lower() == query.lower()]
    if not found:
        raise InputError(f"there is no query {query!r} in {flow}: choose from {', '.join(names)}")
    return found


def _check_combination(*, why: bool, sites: int | None, checkpoint: Path | None, as_json: bool) -> None:
    if as_json and not why:
        raise InputError("--json is for decisions: add --why, and give a checkpoint instead of a flow file")
    if why and (sites is not None or checkpoint is not None):
        raise InputError(
            "--why takes the checkpoint in place of the flow file, and no --sites: leave them out"
        )


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))

"""`anabranch bench queries`: very many standing queries in one session."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.bench import Conf, JsonFile, Scratch, _bench, _write
from anabranch.cli.screen.telling import Debug, telling
from anabranch.errors import AnabranchError


def bench_queries(
    counts: Annotated[str, typer.Option(help="Rules in one session; several numbers by comma.")] = "1000",
    subscriptions: Annotated[int, typer.Option(help="Filters on one stream, too; 0 for none.", min=0)] = 0,
    subscription_rows: Annotated[
        int, typer.Option(help="Rows per micro-batch that they filter; 0 for as many as others have.", min=0)
    ] = 0,
    rows: Annotated[int, typer.Option(help="Rows per stream and micro-batch.", min=1)] = 50_000,
    batches: Annotated[int, typer.Option(help="Micro-batches.", min=6)] = 12,
    turns: Annotated[int, typer.Option(help="Of one query and the first number of rules.", min=1)] = 2,
    coming: Annotated[bool, typer.Option(help="Add queries to a running session, too.")] = True,
    peers: Annotated[bool, typer.Option(help="Measure Spark and DuckDB, too.")] = True,
    json_file: JsonFile = None,
    conf: Conf = None,
    scratch: Scratch = None,
    debug: Debug = False,
) -> None:
    """Measure a session with very many rules, each a window join of its own, beside one query and peers."""
    with telling(debug=debug), _bench(scratch, conf, debug=debug) as (spark, folder, console):
        from anabranch.bench.many.queries import queries_table, run_queries
        from anabranch.bench.report import plain_json

        with console.status("Running …") as status:
            result = run_queries(
                spark,
                folder,
                counts=tuple(int(count) for count in counts.split(",")),
                subscriptions=subscriptions,
                subscription_rows=subscription_rows,
                rows=rows,
                batches=batches,
                peers=peers,
                coming=coming,
                turns=turns,
                tell=lambda what: status.update(f"{what} …"),
            )
        console.print(queries_table(result))
        _write(json_file, plain_json("queries", result))
        if result.failed:
            raise AnabranchError("not measured:\n" + "\n".join(result.failed))

"""`anabranch bench stations`: joins without a common key."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.bench import Conf, JsonFile, _bench, _console, _write
from anabranch.cli.screen.telling import Debug, telling


def bench_stations(
    rows: Annotated[int, typer.Option(help="Rows per stream and batch.", min=1000)] = 100_000,
    spark: Annotated[bool, typer.Option(help="Measure the wall time of hops on Spark, too.")] = False,
    json_file: JsonFile = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Joins without a common key: eddies beside fixed orders, all sites beside one, hops beside none."""
    with telling(debug=debug):
        from anabranch.bench.adapting.station_scale import run_station_scale
        from anabranch.bench.adapting.stations import run_loads
        from anabranch.bench.report import machine, stations_tables

        console = _console()
        with console.status("Joining …"), tempfile.TemporaryDirectory() as folder:
            orders = run_loads(Path(folder) / "orders", rows=rows)
            scale = run_station_scale(Path(folder) / "scale", rows=rows)
        for table in stations_tables(orders, scale):
            console.print(table)
        measured: dict[str, Any] = {
            "orders": {load: asdict(found) | {"ratio": found.ratio} for load, found in orders.items()},
            "scale": asdict(scale) | {"spread": scale.spread, "ratio": scale.ratio},
        }
        if spark:
            measured["wall"] = _wall(rows, conf, debug=debug)
        _write(json_file, {"bench": "stations", "machine": machine()} | measured)


def _wall(rows: int, conf: Conf, *, debug: bool) -> dict[str, Any]:
    """The chain and the join on a shared key on Spark."""
    with _bench(None, conf, debug=debug) as (session, scratch, console):
        from anabranch.bench.adapting.hop_wall import run_hop_wall

        with console.status("Joining on Spark …"):
            found = run_hop_wall(session, scratch, rows=rows)
        console.print(
            f"wall time of a batch on Spark: chain {found.chain_ms:,.0f} ms, shared key "
            f"{found.shared_ms:,.0f} ms: {found.ratio:.2f} ×",
            highlight=False,
        )
        return asdict(found) | {"ratio": found.ratio}

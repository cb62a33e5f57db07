"""The application: every command in one list."""

from __future__ import annotations

import typer

from anabranch.cli.bench import bench
from anabranch.cli.bench_diffusion import bench_band, bench_hotkey
from anabranch.cli.bench_queries import bench_queries
from anabranch.cli.bench_stations import bench_stations
from anabranch.cli.demo.demo import demo
from anabranch.cli.docs import docs
from anabranch.cli.inspect.explain import explain
from anabranch.cli.inspect.queries import queries
from anabranch.cli.inspect.state import state
from anabranch.cli.inspect.submit import drop, submit
from anabranch.cli.prepare import prepare
from anabranch.cli.reproduce import reproduce
from anabranch.cli.run import run

COMMANDS = (run, explain, state, queries, submit, drop, demo, docs, prepare, reproduce)

app = typer.Typer(
    name="anabranch",
    help="Continuous queries on Spark that adapt while they run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command()(command)
bench.command("queries")(bench_queries)
bench.command("band")(bench_band)
bench.command("hotkey")(bench_hotkey)
bench.command("stations")(bench_stations)
app.add_typer(bench, name="bench")


def main() -> None:
    """Entry point of the `anabranch` script."""
    app()

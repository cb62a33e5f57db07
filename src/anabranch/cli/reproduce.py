"""`anabranch reproduce`: an experiment of the papers, its table, its picture, and whether its claim holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.screen.telling import Debug, telling


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Such as flux-fig7; without it, the list.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="The same claim on a smaller run.")] = False,
    debug: Debug = False,
) -> None:
    """Run an experiment of the papers and check its claim; exits with 1 when it does not hold."""
    from anabranch.reproduce import EXPERIMENTS, run_experiment

    if name is None:
        typer.echo("\n".join(EXPERIMENTS))
        return
    with telling(debug=debug):
        result = run_experiment(name, out, quick=quick)
        typer.echo(result.to_text())
        if result.figure is not None:
            typer.echo(f"picture: {result.figure}")

"""`anabranch reproduce`: an experiment of the papers, its table, its picture, and whether its claim holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.screen.telling import Debug, InputError, telling


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Such as flux-fig7; without it, the list.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="The same claim on a smaller run.")] = False,
    pictures: Annotated[
        bool, typer.Option("--redraw", help="Run nothing: draw the pictures in the folder anew.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run an experiment of the papers and check its claim; exits with 1 when it does not hold."""
    from anabranch.reproduce import EXPERIMENTS, run_experiment

    if pictures:
        from anabranch.reproduce.report.picture import redraw

        with telling(debug=debug):
            drawn = redraw(out)
            if not drawn:
                raise InputError(f"no picture was drawn: {out} has no figures, or Matplotlib is missing")
        typer.echo("\n".join(f"picture: {path}" for path in drawn))
        return
    if name is None:
        typer.echo("\n".join(EXPERIMENTS))
        return
    with telling(debug=debug):
        result = run_experiment(name, out, quick=quick)
        typer.echo(result.to_text())
        if result.figure is not None:
            typer.echo(f"picture: {result.figure}")

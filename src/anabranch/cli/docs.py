"""`anabranch docs`: the pages of the documentation, as installed with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from anabranch.cli.screen.telling import Debug, InputError, telling

_HERE = Path(__file__).parent.parent
_CHECKOUT = _HERE.parent.parent / "docs"
_FOLDERS = (_HERE / "pages", _CHECKOUT, _CHECKOUT / "reference")
"""In a wheel, and in a checkout."""


def docs(
    name: Annotated[str | None, typer.Argument(metavar="PAGE", help="Such as language.")] = None,
    debug: Debug = False,
) -> None:
    """Show a page of the documentation; without a name, list them."""
    console = Console()
    with telling(debug=debug):
        if name is None:
            width = max(map(len, pages()))
            for found in pages():
                typer.echo(f"  anabranch docs {found:{width}}  {_title(found)}")
        elif console.is_terminal:
            with console.pager(styles=True):
                console.print(Markdown(page(name)))
        else:
            typer.echo(page(name))


def pages() -> list[str]:
    """Names of the pages."""
    return sorted({file.stem for folder in _FOLDERS for file in folder.glob("*.md")} - {"index"})


def _title(name: str) -> str:
    return page(name).lstrip().partition("\n")[0].lstrip("# ")


def page(name: str) -> str:
    """The text of a page."""
    files = [folder / f"{name.removesuffix('.md')}.md" for folder in _FOLDERS]
    found = next((file for file in files if file.is_file()), None)
    if found is None or name not in (found.stem, found.name):
        raise InputError(f"there is no page {name!r}: choose from {', '.join(pages())}")
    return found.read_text(encoding="utf-8")

"""A SELECT that makes the rows of a stream of those of its source, in Spark, where they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.plan.vectors import Vector


@dataclass(frozen=True, slots=True)
class Explosion:
    """A function that makes rows of one row: explode, posexplode or inline of an array or map."""

    function: str
    argument: str
    """Spark SQL."""
    names: tuple[str, ...]
    """Its columns."""
    outer: bool
    """Whether a row without elements is kept."""


@dataclass(frozen=True, slots=True)
class IngestSelect:
    """What Spark makes of a source's rows before they are a stream's, in this order."""

    computed: tuple[tuple[str, str], ...]
    """Columns in between, by name: structs whose fields are all selected."""
    before: tuple[Explosion, ...]
    """LATERAL VIEW: `where` sees its columns."""
    where: str | None
    after: tuple[Explosion, ...]
    """Of the SELECT list."""
    items: tuple[str, ...]
    """The SELECT list, Spark SQL."""
    starts: tuple[int, ...]
    """Where each item begins in the user's text, for messages."""
    vectors: tuple[Vector, ...] = ()
    """Items that are arrays with a length: they are taken apart in the end."""

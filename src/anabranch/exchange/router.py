"""Routers: which partitions get a row on its way from ingest, and as what.

A router is pure. It is asked twice, in two languages: `placed` says it of arrays (the driver without a JVM,
the simulator), `cases` says the same in Spark SQL (ingest). A row of which no router knows goes where its
address says: that is hash routing. Ownership is a matter of routing, too: a partition emits what meets in it,
so a router must bring the rows of a result together in one partition and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import Addresses, partition_of

Tags = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64]

FIRST = 1
"""Bit of a tag: the copy that stands for its row where rows are counted."""
HOME_SHIFT = 20
"""Above these bits of a tag: 1 + the partition that a row belongs to, if it travels to another; else 0."""
INPUT_MASK = (1 << HOME_SHIFT) - 1
"""Bits of a tag that name the input, and `FIRST`."""
COPY = 1 << 29
"""Bit of a tag: a further copy of a row that goes to several partitions."""


def with_home(tag: int, partition: int) -> int:
    """Tag of a row that travels to another partition than its own."""
    return tag | (1 + partition) << HOME_SHIFT


@dataclass(frozen=True, slots=True)
class WireNames:
    """What the columns that routers read are called in Spark SQL."""

    tag: str
    address: str
    time: str

    def is_input(self, number: int) -> str:
        """Whether a row is of an input, whatever else its tag says; ticks and dead rows are of none.

        Not with `>>`: behind `array(` Spark's lexer takes that for the end of two types.
        """
        return f"({self.tag} >= 0 AND shiftright({self.tag} & {INPUT_MASK}, 1) = {number})"


@dataclass(frozen=True, slots=True)
class Case:
    """Spark SQL of where some rows go.

    Attributes
    ----------
    when
        Which rows.
    tag, address
        What they get, before they are copied.
    partitions
        Array of partitions that get a copy each, the first of them the one that counts; None where the
        address says it.
    """

    when: str
    tag: str
    address: str
    partitions: str | None = None


@dataclass(frozen=True, slots=True)
class WireRows:
    """Rows of a batch as routers see them; `column` gives another column of some of the rows."""

    tags: Tags
    addresses: Addresses
    times: Times
    column: Callable[[str, npt.NDArray[np.int64]], npt.NDArray[Any]]

    def of_input(self, number: int) -> npt.NDArray[np.int64]:
        """Positions of the rows of an input."""
        return np.flatnonzero(self.tags >> 1 == number)


@dataclass(frozen=True, slots=True)
class Placed:
    """(row, partition) pairs: `partitions` are in the order of `rows`, and the first pair of a row counts."""

    rows: npt.NDArray[np.int64]
    tags: Tags
    addresses: Addresses
    partitions: npt.NDArray[Any]

    @classmethod
    def as_addressed(cls, rows: npt.NDArray[np.int64], tags: Tags, addresses: Addresses) -> Placed:
        """One pair for each row, where its address says."""
        return cls(rows, tags, addresses, partition_of(addresses))

    @classmethod
    def together(cls, found: Sequence[Placed]) -> Placed:
        """The pairs of several inputs."""
        return cls(
            np.concatenate([p.rows for p in found]),
            np.concatenate([p.tags for p in found]),
            np.concatenate([p.addresses for p in found]),
            np.concatenate([p.partitions for p in found]),
        )


class Router(Protocol):
    """Routes the rows of some inputs."""

    @property
    def inputs(self) -> Sequence[int]:
        """Numbers of these inputs; an input has one router at most."""
        ...

    def placed(self, rows: WireRows) -> Placed:
        """Where the rows of its inputs go."""
        ...

    def cases(self, names: WireNames) -> list[Case]:
        """The same in Spark SQL; rows that are in no case go where their address says."""
        ...

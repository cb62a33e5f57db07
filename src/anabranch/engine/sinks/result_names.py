"""Names of result files: which steps of which query a file has the results of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from anabranch.state.paths import file_stem

Step = tuple[int, int]
"""Batch and step: they ascend."""
_STEP = r"(\d{10})-(\d{4,})"


@dataclass(frozen=True, slots=True, order=True)
class ResultName:
    """A file of results.

    Attributes
    ----------
    first, last
        The steps whose results are in it; the same one unless it was merged from several files.
    number
        Which file of its step it is.
    level
        How often its rows have been merged.

    Examples
    --------
    >>> ResultName((7, 0), (7, 0), 1).file("q")
    'q-0000000007-0000-001.parquet'
    >>> name = ResultName((7, 0), (9, 2), 0, 1).file("q")
    >>> name, ResultName.of("q", name).last
    ('q-0000000007-0000-to-0000000009-0002-merged1.parquet', (9, 2))
    """

    first: Step
    last: Step
    number: int = 0
    level: int = 0

    def file(self, query: str) -> str:
        """The name of the file."""
        first, last = (f"{batch:010d}-{step:04d}" for batch, step in (self.first, self.last))
        rest = f"to-{last}-merged{self.level}" if self.level else f"{self.number:03d}"
        return f"{file_stem(query)}-{first}-{rest}.parquet"

    @classmethod
    def of(cls, query: str, file: str) -> Self | None:
        """What the name of a file says; None if it is not one of the query's results."""
        pattern = rf"{re.escape(file_stem(query))}-{_STEP}-(?:(\d{{3,}})|to-{_STEP}-merged(\d+))\.parquet"
        found = re.fullmatch(pattern, file)
        if found is None:
            return None
        first = int(found[1]), int(found[2])
        if found[3] is not None:
            return cls(first, first, int(found[3]))
        return cls(first, (int(found[4]), int(found[5])), 0, int(found[6]))


def results_in(folder: Path, query: str) -> list[tuple[ResultName, Path]]:
    """Files of a query in a folder, by their steps."""
    named = ((ResultName.of(query, file.name), file) for file in folder.iterdir())
    return sorted((name, file) for name, file in named if name is not None)

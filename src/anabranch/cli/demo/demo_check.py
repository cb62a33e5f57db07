"""The demo's judge: the same queries as batch SQL in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.plan.logical import Flow
    from anabranch.workloads.uniform import Workload


class WrongResults(AnabranchError):
    """The demo's results are not what they must be."""


def checked_rows(flow: Flow, workload: Workload, out: Path) -> Iterator[tuple[str, int]]:
    """Name and rows of every query, one by one; what it gave is what DuckDB gives over all rows.

    Raises
    ------
    WrongResults
        It is not.
    """
    from anabranch.testing.flow_oracle import FlowOracle
    from anabranch.testing.oracle_compare import compare_rows

    oracle = FlowOracle({s.name: s for s in flow.streams}, {s.name: s.path for s in workload.streams})
    for query in flow.queries:
        difference = compare_rows(out / query.name, oracle.results(query))
        if not difference.empty:
            raise WrongResults(difference.describe(f"query {query.name}"))
        yield query.name, difference.actual_rows

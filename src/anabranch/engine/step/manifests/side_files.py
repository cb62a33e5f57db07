"""What of a manifest lies in files of its own: the catalog, and results where they are very many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from anabranch.queries.catalog import Catalog
from anabranch.state import Manifest
from anabranch.state.manifest import ResultFile
from anabranch.state.paths import CATALOGS, LISTS
from anabranch.state.side_file import SideFile
from anabranch.state.stamp import Stamp

MOST_RESULTS = 256
"""Result files that a manifest names itself."""


def catalog_file(
    catalog: Catalog, before: Manifest | None, stamp: Stamp
) -> tuple[Mapping[str, Any], SideFile]:
    """The catalog as JSON, and its file: that of the manifest before as long as nothing comes or goes."""
    content = catalog.content
    known = None if before is None else before.catalog_file
    if known is not None and before is not None and (before.catalog is content or before.catalog == content):
        return content, known  # the same object: next time there is nothing to compare
    return content, SideFile.of(CATALOGS, stamp, content)


def results_file(results: Sequence[ResultFile], stamp: Stamp) -> SideFile | None:
    """The file of a step's results; None where the manifest has them."""
    if len(results) <= MOST_RESULTS:
        return None
    names = [f.name for f in fields(ResultFile)]
    return SideFile.of(LISTS, stamp, [[getattr(result, name) for name in names] for result in results])

"""What of a manifest lies in files of its own: the catalog, and results where they are very many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from anabranch.queries.catalog import Catalog
from anabranch.state import Manifest
from anabranch.state.catalog_log import CatalogLog
from anabranch.state.manifest import ResultFile
from anabranch.state.paths import LISTS
from anabranch.state.side_file import SideFile
from anabranch.state.stamp import Stamp

MOST_RESULTS = 256
"""Result files that a manifest names itself."""


def catalog_log(
    catalog: Catalog, before: Manifest | None, stamp: Stamp
) -> tuple[Mapping[str, Any], CatalogLog]:
    """The catalog as JSON, and where it lies: as before, and what has changed, if that is known."""
    content, changed = catalog.content, catalog.changed
    known = None if before is None else before.catalog_log
    if before is None or known is None:
        return content, CatalogLog.of(content, stamp)
    if changed is not None and changed.before is before.catalog and changed.after is content:
        return content, known.with_changes(changed.changes, content, stamp)
    if before.catalog is content or before.catalog == content:
        return content, known  # the same object: next time there is nothing to compare
    return content, CatalogLog.of(content, stamp)


def results_file(results: Sequence[ResultFile], stamp: Stamp) -> SideFile | None:
    """The file of a step's results; None where the manifest has them."""
    if len(results) <= MOST_RESULTS:
        return None
    names = [f.name for f in fields(ResultFile)]
    return SideFile.of(LISTS, stamp, [[getattr(result, name) for name in names] for result in results])

"""The manifest of a step that has run, before queries come or go with it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.reports import SlotReport
from anabranch.engine.step.manifests.side_files import catalog_log, results_file
from anabranch.engine.step.manifests.step_outcome import renamed
from anabranch.engine.task.results.staging import without_queries
from anabranch.engine.task.slot_task import SlotTask
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta, Manifest, ResultFile, StreamState
from anabranch.state.block_lists import listed, with_new_list


def step_manifest(
    task: SlotTask,
    reports: Sequence[SlotReport],
    *,
    before: Manifest | None,
    parent: str,
    offsets: str,
    source_id: str,
    committed_at: float,
    left: tuple[Sequence[BlockMeta], tuple[StreamState, ...]],
    catalog: Catalog,
    tables: Mapping[str, Any],
    state: BoundaryState,
    decisions: Decisions,
    tracks: Tracks,
) -> Manifest:
    """Everything the next step starts from.

    Parameters
    ----------
    before, parent
        The manifest that it follows, and its digest.
    left
        Blocks and streams after the step.
    catalog, tables
        The queries after the step, with what they have emitted and why some have failed; the version of
        each static table that the batch has used.
    tracks
        Those that were decided, without plans that the catalog has.
    """
    blocks, streams = left
    lists = before.lists if before else ()
    kept = with_new_list(listed(renamed(tuple(blocks), decisions.renames), lists), task.stamp)
    results = results_after(task, reports, catalog)
    content, log = catalog_log(catalog, before, task.stamp)
    return Manifest(
        batch=task.batch,
        step=task.stamp.step,
        number=before.number + 1 if before else 0,
        parent=parent,
        epoch=task.stamp.epoch,
        attempt=secrets.token_hex(8),
        offsets=offsets,
        source_id=source_id,
        committed_at=committed_at,
        streams=streams,
        blocks=kept.blocks(),
        lists=tuple(known for known, _ in kept.lists),
        partition_map=decisions.partition_map.site_of_partition,
        sites=decisions.partition_map.sites,
        tracks=tracks.to_json(),
        queries=catalog.states,
        tables=dict(tables),
        catalog=content,
        catalog_log=log,
        results=results,
        results_file=results_file(results, task.stamp),
        dead_letters=tuple(f for r in reports for f in r.dead_letters),
        controller=state.to_json(),
    )


def results_after(task: SlotTask, reports: Sequence[SlotReport], catalog: Catalog) -> tuple[ResultFile, ...]:
    """Result files of a step, without rows of queries that were ended in it."""
    failed = {query for report in reports for query in report.failures}
    found = [f for r in reports for f in r.results if f.query not in failed]
    if not failed:
        return tuple(found)
    shared: dict[str, set[str]] = {}
    for query in catalog.answered:
        if query.name in failed and query.place is not None:
            shared.setdefault(query.place, set()).add(query.name)
    cleaned = (
        without_queries(task.storage, file, shared[file.query]) if file.query in shared else file
        for file in found
    )
    return tuple(file for file in cleaned if file.rows)

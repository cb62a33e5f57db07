"""The manifest: everything the next step starts from, as plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from anabranch.state.block import BlockMeta
from anabranch.state.block_lists import BlockList
from anabranch.state.catalog_log import CatalogLog
from anabranch.state.paths import BLOCKS, STAGED
from anabranch.state.side_file import SideFile
from anabranch.state.stamp import Stamp

VERSION = 6
NO_PARENT = ""


class ManifestKey(NamedTuple):
    """Where a manifest stands: steps follow a batch that brought no new rows."""

    batch: int
    step: int


class QueryStatus(StrEnum):
    """Whether a query takes part in batches."""

    RUNNING = "running"
    FAILED = "failed"
    DROPPED = "dropped"
    """It was dropped with this step, whose results its sink still gets."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream has come, counted over all committed batches."""

    name: str
    max_ts: int | None = None
    watermark: int | None = None
    accepted: int = 0
    late: int = 0
    """Rows below the watermark that some query wanted."""
    rejected: int = 0
    spoke_at: float | None = None
    """When it last brought a row, was first seen, or a session began to wait for it; seconds of Unix time."""
    refused: int = 0
    """Of the late rows, those that were kept from a query with state."""
    behind_us: int = 0
    """How far refused rows were behind the newest row at most: the lateness that would have let them in."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """A query as of this step; `since` is its first batch."""

    name: str
    fingerprint: str
    since: int
    status: QueryStatus = QueryStatus.RUNNING
    failure: str | None = None
    emitted_us: int | None = None
    """For queries that wait until rows are final: all before this time are in the results."""
    ahead: tuple[tuple[int, int], ...] = ()
    """Partitions of which more are, and up to which time: under a memory budget they take turns."""
    waiting: int = 0
    """Rows, or results of its join, that are not final yet: each may still be a result."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A staged file of results, or of dead letters; `name` is relative to the staged folder."""

    query: str
    name: str
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A committed step.

    Attributes
    ----------
    parent
        Digest of the manifest before this one; `NO_PARENT` for the first.
    number
        How many steps were committed before this one.
    epoch
        Epoch of the writing session, see `fence`.
    attempt
        Random id of the attempt to commit this step: tells our own manifest from another's
        when the outcome of publishing is unknown.
    offsets
        Digest of the source offsets of this batch.
    source_id
        Id of the Spark checkpoint the offsets belong to.
    partition_map
        Site of every partition.
    tracks
        Which plans work on which partitions, as JSON (`adapt.tracks`).
    lists
        Lists that have most of the blocks, where there are very many.
    catalog, controller
        JSON objects of the runtime and the controller; not looked into here, but that `catalog["queries"]`
        has `fingerprint` and `since` of every query, so that a manifest tells only of queries that differ.
    catalog_log, results_file
        Where the catalog lies, and the results, if they are not in the manifest itself.
    results, dead_letters
        Files staged in this step. Both are published by linking: a staged file is removed
        when no retained manifest names it.
    tables
        By static table, the version that the batch has used, as JSON.
    mail
        Names of the letters that this step has carried out, each with its answer (`engine.live.mailbox`).
    committed_at
        Unix time in seconds, given by the caller.
    """

    batch: int
    step: int
    number: int
    parent: str
    epoch: int
    attempt: str
    offsets: str
    source_id: str
    committed_at: float
    streams: tuple[StreamState, ...] = ()
    blocks: tuple[BlockMeta, ...] = ()
    partition_map: tuple[int, ...] = ()
    sites: int = 1
    tracks: Mapping[str, Any] = field(default_factory=dict)
    queries: tuple[QueryState, ...] = ()
    catalog: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[ResultFile, ...] = ()
    dead_letters: tuple[ResultFile, ...] = ()
    controller: Mapping[str, Any] = field(default_factory=dict)
    mail: tuple[tuple[str, str], ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    version: int = VERSION
    lists: tuple[BlockList, ...] = ()
    catalog_log: CatalogLog | None = None
    results_file: SideFile | None = None

    @property
    def key(self) -> ManifestKey:
        """Position in the history."""
        return ManifestKey(self.batch, self.step)

    def file_names(self) -> set[str]:
        """Return the names, relative to the checkpoint, of all files this manifest needs."""
        blocks = {f"{BLOCKS}/{block.name}" for block in self.blocks}
        staged = {f"{STAGED}/{file.name}" for file in (*self.results, *self.dead_letters)}
        return blocks | staged | {file.name for file in self.side_files()}

    def side_files(self) -> tuple[SideFile, ...]:
        """Parts of this manifest that lie in files of their own."""
        catalog = () if self.catalog_log is None else self.catalog_log.files
        results = () if self.results_file is None else (self.results_file,)
        return (*catalog, *results, *(known.file for known in self.lists))

    @property
    def stamp(self) -> Stamp:
        """What names of files have in them that this step has written."""
        return Stamp(self.epoch, self.batch, self.step)

"""Results that sinks have not taken: kept in the checkpoint until they have, in the order of their steps.

    undelivered/0000000041-alerts-….json    a note: the step, its files, why the sink has not taken them
    undelivered/….parquet                   the files, by a second name: no collection of garbage looks there

Files are there before their note, and go after it: what a note names can be given again after any crash.
"""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.engine.task.results.staging import verify_files
from anabranch.state.errors import CorruptionError
from anabranch.state.manifest import ResultFile
from anabranch.state.paths import STAGED, UNDELIVERED, file_stem
from anabranch.state.storage import Storage

_NOTE = ".json"


@dataclass(frozen=True, slots=True)
class Owed:
    """What a sink has not taken of one step.

    Attributes
    ----------
    owner
        The query, or the place that queries share.
    why
        What the sink said when it was first given this, or an earlier step that it has not taken either.
    """

    owner: str
    batch: int
    step: int
    number: int
    files: tuple[ResultFile, ...]
    why: str

    def note(self) -> tuple[str, bytes]:
        """The file that tells of it: its name, with the digest of its content, and the content."""
        content = json.dumps(asdict(self), ensure_ascii=True).encode("ascii")
        digest = xxhash.xxh3_128_hexdigest(content)
        return f"{UNDELIVERED}/{self.number:010d}-{file_stem(self.owner)}-{digest}{_NOTE}", content

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def results(self, storage: Storage, schema: pa.Schema) -> ResultBatch:
        """What the sink is given; `schema` is that of a step without rows."""
        files = tuple(StagedFile(storage, file, UNDELIVERED) for file in self.files)
        if files:  # the query may have other columns by now
            schema = pq.read_schema(os.fspath(files[0])).remove_metadata()
        return ResultBatch(self.owner, self.batch, self.step, self.number, schema, files)


class Backlog:
    """Everything that the sinks of a session have not taken."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._owed: dict[str, deque[Owed]] = {}
        self._unchecked: set[tuple[str, int]] = set()
        """Owners and numbers of what an earlier process kept: whatever happened to the files since."""
        for owed in owed_results(storage):
            self._owed.setdefault(owed.owner, deque()).append(owed)
            self._unchecked.add((owed.owner, owed.number))

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(self._owed)

    def of(self, owner: str) -> tuple[Owed, ...]:
        """What a sink has not taken, the oldest step first."""
        return tuple(self._owed.get(owner, ()))

    def next_of(self, owner: str) -> Owed | None:
        """What it must be given before anything else; checked, if another process has written it.

        Raises
        ------
        CorruptionError
            A file is missing or is not what was written.
        """
        if owner not in self._owed:
            return None
        owed = self._owed[owner][0]
        if (owner, owed.number) in self._unchecked:
            verify_files(self.storage, UNDELIVERED, owed.files)
            self._unchecked.discard((owner, owed.number))
        return owed

    def keep(self, results: ResultBatch, why: str) -> None:
        """Keep the results of a step; one that is kept already stays as it is."""
        known = self._owed.setdefault(results.query, deque())
        if known and known[-1].number >= results.number:
            return
        files = tuple(staged.file for staged in results.files)
        owed = Owed(results.query, results.batch, results.step, results.number, files, why)
        for file in files:
            self.storage.link(f"{STAGED}/{file.name}", f"{UNDELIVERED}/{file.name}")
        self.storage.put_if_absent(*owed.note())
        known.append(owed)

    def taken(self, owed: Owed) -> None:
        """The sink has the results of its oldest step."""
        self._forget(owed)
        for file in owed.files:
            self.storage.delete(f"{UNDELIVERED}/{file.name}")

    def give_up(self, owner: str) -> None:
        """Nobody will be given the results any more; their files stay."""
        for owed in self.of(owner):
            self._forget(owed)

    def _forget(self, owed: Owed) -> None:
        self.storage.delete(owed.note()[0])
        self._unchecked.discard((owed.owner, owed.number))
        known = self._owed[owed.owner]
        known.remove(owed)
        if not known:
            del self._owed[owed.owner]


def owed_results(storage: Storage) -> list[Owed]:
    """What the notes in a checkpoint tell, the oldest step first."""
    return [_read(storage, name) for name in storage.list(UNDELIVERED) if name.endswith(_NOTE)]


def _read(storage: Storage, name: str) -> Owed:
    data = storage.read(name)
    written, found = name.removesuffix(_NOTE).rpartition("-")[2], xxhash.xxh3_128_hexdigest(data)
    if written != found:
        advice = "Results that a sink has not taken are beside it: restore it from a copy, or remove it"
        raise CorruptionError(
            name, expected=f"content with checksum {written}", found=f"checksum {found}", advice=advice
        )
    told = json.loads(data)
    return Owed(**{**told, "files": tuple(ResultFile(**file) for file in told["files"])})

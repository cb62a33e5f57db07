"""Stop a commit at every step: what is found afterwards is the old state or the new one, whole."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xxhash

from anabranch.state.block import BlockMeta, map_block
from anabranch.state.garbage import collect_garbage
from anabranch.state.manifest import NO_PARENT, Manifest, ResultFile
from anabranch.state.manifest_codec import digest
from anabranch.state.manifest_log import load, manifest_keys, newest, publish, verify_chain
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage
from tests.state.samples import sample_block, sample_manifest
from tests.support.faults import Fault, FaultyStorage, SimulatedCrash
from tests.support.storages import KINDS, storage_at

pytestmark = pytest.mark.usefixtures("no_sync")

SEEDS = int(os.environ.get("ANABRANCH_FAULT_SEEDS", "100"))

_attempts = itertools.count()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with a sink beside it, and a batch loop reduced to its writes."""

    root: Path
    kind: str = "posix"

    @property
    def storage(self) -> Storage:
        return storage_at(self.root / "ck", self.kind)

    @property
    def sink(self) -> Path:
        return self.root / "sink"

    def run_until_crash(self, storage: Storage) -> int:
        """Run batches; return the one in which the writer died."""
        for batch in range(5):
            try:
                self.run_batch(storage, batch)
            except SimulatedCrash:
                return batch
        raise AssertionError("nothing crashed")

    def run_batch(self, storage: Storage, batch: int) -> None:
        """Enter a batch as the runtime does: finish it if it was committed, else run it."""
        before = newest(storage)
        if before is None or before.batch < batch:
            before = self._commit(storage, batch, before)
        self._publish_results(storage, before)
        collect_garbage(storage, keep=2)

    def _commit(self, storage: Storage, batch: int, before: Manifest | None) -> Manifest:
        block = self._write_block(storage, batch)
        kept = () if before is None else before.blocks[-2:]
        manifest = sample_manifest(
            batch,
            parent=NO_PARENT if before is None else digest(before),
            attempt=f"attempt {next(_attempts)}",
            blocks=(*kept, block),
            results=(self._stage_result(storage, batch),),
        )
        publish(storage, manifest)
        return manifest

    def _write_block(self, storage: Storage, batch: int) -> BlockMeta:
        return sample_block(storage, batch=batch, rows=20, seed=batch)

    def _stage_result(self, storage: Storage, batch: int) -> ResultFile:
        data = f"result of batch {batch}".encode()
        name = f"{Stamp(1, batch, 0)}-q-{next(_attempts)}"
        storage.put_new(f"staged/{name}", data)
        return ResultFile("q", name, 1, len(data), xxhash.xxh3_64_hexdigest(data))

    def _publish_results(self, storage: Storage, manifest: Manifest) -> None:
        self.sink.mkdir(exist_ok=True, parents=True)
        for number, file in enumerate(manifest.results):
            storage.export(f"staged/{file.name}", self.sink / f"{file.query}-{manifest.batch}-{number}")

    def assert_whole(self) -> int | None:
        """Check everything the newest manifest promises; return its batch."""
        manifest = newest(self.storage)
        verify_chain(self.storage)
        for key in manifest_keys(self.storage):
            assert load(self.storage, *key).file_names() <= set(self.storage.list(""))
        if manifest is None:
            return None
        for block in manifest.blocks:
            assert map_block(self.storage, block).num_rows == 20
        for file in manifest.results:
            data = self.storage.read(f"staged/{file.name}")
            assert xxhash.xxh3_64_hexdigest(data) == file.checksum
        return manifest.batch

    def assert_results(self, batches: int) -> None:
        found = {path.name: path.read_text() for path in self.sink.glob("[!_]*")}
        assert found == {f"q-{batch}-0": f"result of batch {batch}" for batch in range(batches)}


def _count_calls(root: Path, kind: str) -> int:
    checkpoint = Checkpoint(root, kind)
    storage = FaultyStorage(checkpoint.storage)
    for batch in range(5):
        checkpoint.run_batch(storage, batch)
    return len(storage.calls)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", list(Fault))
def test_a_crash_at_any_storage_call_leaves_the_old_or_the_new_state(
    tmp_path: Path, fault: Fault, kind: str
) -> None:
    total = _count_calls(tmp_path / "dry", kind)
    assert total >= 20  # three puts and an export per batch, deletions after the second
    for crash_at in range(1, total + 1):
        checkpoint = Checkpoint(tmp_path / f"{crash_at}", kind)
        storage = FaultyStorage(checkpoint.storage, crash_at=crash_at, fault=fault)
        batch = checkpoint.run_until_crash(storage)
        assert checkpoint.assert_whole() in ({None, 0} if batch == 0 else {batch - 1, batch})
        for again in range(batch, 6):  # Spark replays the batch it did not see finished
            checkpoint.run_batch(checkpoint.storage, again)
            assert checkpoint.assert_whole() == again
        checkpoint.assert_results(6)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_crashes_in_a_row_lose_and_double_nothing(tmp_path: Path, kind: str) -> None:
    for seed in range(SEEDS):
        draw = random.Random(seed)
        checkpoint = Checkpoint(tmp_path / f"{seed}", kind)
        done = 0
        for _ in range(8):
            fault = draw.choice(list(Fault))
            storage = FaultyStorage(checkpoint.storage, crash_at=draw.randint(1, 24), fault=fault)
            try:
                while done < 5:
                    checkpoint.run_batch(storage, done)
                    done += 1
            except SimulatedCrash:
                committed = checkpoint.assert_whole()
                assert committed in ({None, 0} if done == 0 else {done - 1, done}), f"seed {seed}"
        for batch in range(done, 5):
            checkpoint.run_batch(checkpoint.storage, batch)
        assert checkpoint.assert_whole() == 4, f"seed {seed}"
        checkpoint.assert_results(5)


class _Disk:
    """Counts the system calls that make things durable or visible, and dies at one of them."""

    CALLS = ("fsync", "link", "unlink", "mkdir")

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.crash_at: int | None = None
        for name in self.CALLS:
            patch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.crash_at is not None and self.count >= self.crash_at:
                raise SimulatedCrash(f"{call.__name__}{args}")
            return call(*args, **kwargs)

        return counted


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Disk]:
    with monkeypatch.context() as patch:
        yield _Disk(patch)


def test_a_crash_at_any_system_call_leaves_the_old_or_the_new_state(tmp_path: Path, disk: _Disk) -> None:
    dry = Checkpoint(tmp_path / "dry")
    for batch in range(4):
        dry.run_batch(dry.storage, batch)
    total = disk.count
    assert total > 40
    for crash_at in range(1, total + 1):
        checkpoint = Checkpoint(tmp_path / f"{crash_at}")
        checkpoint.root.mkdir()
        disk.count, disk.crash_at = 0, crash_at
        batch = checkpoint.run_until_crash(checkpoint.storage)
        disk.crash_at = None
        assert checkpoint.assert_whole() in ({None, 0} if batch == 0 else {batch - 1, batch})
        for again in range(batch, 4):
            checkpoint.run_batch(checkpoint.storage, again)
        assert checkpoint.assert_whole() == 3
        checkpoint.assert_results(4)

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.state.samples import sample_manifest, sample_meta

from anabranch.state.errors import CorruptionError
from anabranch.state.garbage import Garbage, collect_garbage
from anabranch.state.manifest import ResultFile
from anabranch.state.manifest_log import manifest_keys, manifest_name, newest, publish, verify_chain
from anabranch.state.storage import PosixStorage

pytestmark = pytest.mark.usefixtures("no_sync")

Names = set[str] | frozenset[str]

_SECOND = 1_000_000_000


def _put(storage: PosixStorage, name: str, *, second: int) -> None:
    path = storage.local_path(name)
    path.write_bytes(b"12345")
    os.utime(path, ns=(second * _SECOND, second * _SECOND))


def _commit(
    storage: PosixStorage,
    batch: int,
    parent: str = "",
    *,
    blocks: Names = frozenset(),
    staged: Names = frozenset(),
) -> str:
    results = tuple(ResultFile("q", name, 1, 5, "") for name in sorted(staged))
    manifest = sample_manifest(
        batch, parent=parent, blocks=tuple(sample_meta(name) for name in sorted(blocks)), results=results
    )
    checksum = publish(storage, manifest)
    time_ns = (10 * batch + 5) * _SECOND
    os.utime(storage.root / manifest_name(manifest.key), ns=(time_ns, time_ns))
    return checksum


name_sets = st.sets(st.sampled_from([f"f{i}" for i in range(10)]), max_size=6)


@given(
    commits=st.lists(st.tuples(name_sets, name_sets), max_size=6),
    keep=st.integers(1, 4),
    seconds=st.lists(st.integers(0, 80), min_size=20, max_size=20),
)
def test_what_a_retained_manifest_names_is_never_deleted_and_the_rest_goes(
    commits: list[tuple[set[str], set[str]]], keep: int, seconds: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = PosixStorage(Path(root))
        names = [f"{folder}/f{i}" for folder in ("blocks", "staged") for i in range(10)]
        files = dict(zip(names, seconds, strict=True))
        for name, second in files.items():
            _put(storage, name, second=second)
        parent = ""
        for batch, (blocks, staged) in enumerate(commits):
            parent = _commit(storage, batch, parent, blocks=blocks, staged=staged)

        garbage = collect_garbage(storage, keep=keep)

        named = {f"blocks/{n}" for b, _ in commits[-keep:] for n in b}
        named |= {f"staged/{n}" for _, s in commits[-keep:] for n in s}
        newest_second = 10 * len(commits) - 5
        spared = {name for name, second in files.items() if second >= newest_second}
        expected = named | spared if commits else set(files)
        assert set(storage.list("blocks") + storage.list("staged")) == expected
        assert len(manifest_keys(storage)) == min(keep, len(commits))
        assert garbage.blocks + garbage.staged == len(files) - len(expected)
        assert garbage.bytes == 5 * (garbage.blocks + garbage.staged)
        verify_chain(storage)


@pytest.fixture
def storage(tmp_path: Path) -> PosixStorage:
    return PosixStorage(tmp_path)


def test_nothing_is_deleted_while_there_is_no_manifest(storage: PosixStorage) -> None:
    _put(storage, "blocks/a", second=0)
    assert collect_garbage(storage) == Garbage()
    assert storage.list("blocks") == ["blocks/a"]


def test_a_damaged_retained_manifest_stops_the_collection_before_it_deletes(storage: PosixStorage) -> None:
    parent = ""
    for batch in range(5):
        parent = _commit(storage, batch, parent)
    _put(storage, "blocks/a", second=0)
    path = storage.root / "manifests/0000000003.0000.json"
    path.write_bytes(path.read_bytes()[:-1])
    before = storage.list("")
    with pytest.raises(CorruptionError):
        collect_garbage(storage)
    assert storage.list("") == before


def test_torn_temporary_files_and_old_epochs_go_and_the_lock_stays(storage: PosixStorage) -> None:
    _commit(storage, 0)
    _put(storage, "tmp/torn", second=0)
    _put(storage, "tmp/just-now", second=100)
    for epoch in (1, 2, 9):
        _put(storage, f"epochs/{epoch:08d}", second=0)
    _put(storage, "lock", second=0)
    assert collect_garbage(storage) == Garbage(temporary=1, bytes=5)
    assert storage.list("tmp") == ["tmp/just-now"]
    assert storage.list("epochs") == ["epochs/00000009"]
    assert "lock" in storage.list("")


def test_what_others_put_into_the_checkpoint_stays(storage: PosixStorage) -> None:
    _commit(storage, 0)
    _put(storage, "notes/readme", second=0)
    collect_garbage(storage)
    assert storage.list("notes") == ["notes/readme"]


def test_the_last_manifest_cannot_be_given_up(storage: PosixStorage) -> None:
    _commit(storage, 0)
    with pytest.raises(ValueError, match="at least one"):
        collect_garbage(storage, keep=0)
    assert newest(storage) is not None

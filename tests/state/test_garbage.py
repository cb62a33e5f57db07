from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.state.errors import CorruptionError
from anabranch.state.garbage import Garbage, collect_garbage
from anabranch.state.manifest import ResultFile
from anabranch.state.manifest_log import manifest_keys, newest, publish, verify_chain
from anabranch.state.stamp import Stamp
from anabranch.state.storage import PosixStorage, Storage
from tests.state.samples import overwrite, sample_manifest, sample_meta

pytestmark = pytest.mark.usefixtures("no_sync")

Names = set[str] | frozenset[str]


def _put(storage: Storage, name: str) -> None:
    storage.put_new(name, b"12345")


def _commit(
    storage: Storage,
    batch: int,
    parent: str = "",
    *,
    epoch: int = 1,
    blocks: Names = frozenset(),
    staged: Names = frozenset(),
) -> str:
    results = tuple(ResultFile("q", name, 1, 5, "") for name in sorted(staged))
    metas = tuple(sample_meta(name) for name in sorted(blocks))
    return publish(storage, sample_manifest(batch, parent=parent, epoch=epoch, blocks=metas, results=results))


STAMPS = st.builds(Stamp, st.integers(1, 3), st.integers(0, 7), st.integers(0, 1))


@given(
    epochs=st.lists(st.integers(1, 3), max_size=6).map(sorted),
    keep=st.integers(1, 4),
    stamps=st.lists(STAMPS, min_size=20, max_size=20),
    draw=st.data(),
)
def test_what_a_retained_manifest_names_or_a_later_step_may_name_stays_and_the_rest_goes(
    epochs: list[int], keep: int, stamps: list[Stamp], draw: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = PosixStorage(Path(root))
        folders = ["blocks", "staged"] * 10
        files = {f"{f}/{s}-{i}": s for i, (f, s) in enumerate(zip(folders, stamps, strict=True))}
        for name in files:
            _put(storage, name)
        parent, named = "", []
        for batch, epoch in enumerate(epochs):
            # A step names files of its own and earlier ones.
            known = sorted(name for name, stamp in files.items() if stamp <= (epoch, batch, 0))
            names = draw.draw(st.sets(st.sampled_from(known), max_size=6) if known else st.just(set()))
            named.append(names)
            blocks = {n.removeprefix("blocks/") for n in names if n.startswith("blocks")}
            staged = {n.removeprefix("staged/") for n in names if n.startswith("staged")}
            parent = _commit(storage, batch, parent, epoch=epoch, blocks=blocks, staged=staged)

        garbage = collect_garbage(storage, keep=keep)

        expected = set(files)
        if epochs:
            last = (epochs[-1], len(epochs) - 1, 0)
            expected = set().union(*named[-keep:], {name for name, stamp in files.items() if stamp > last})
        assert set(storage.list("blocks") + storage.list("staged")) == expected
        assert len(manifest_keys(storage)) == min(keep, len(epochs))
        assert garbage.blocks + garbage.staged == len(files) - len(expected)
        assert garbage.bytes == 5 * (garbage.blocks + garbage.staged)
        verify_chain(storage)


def test_files_of_a_step_under_way_and_of_a_session_before_its_first_commit_stay(storage: Storage) -> None:
    _commit(storage, 3, epoch=2)
    under_way, other_session, zombie, over = (
        f"blocks/{stamp}-s000-a.arrow"
        for stamp in (Stamp(2, 3, 1), Stamp(3, 3, 0), Stamp(1, 9, 0), Stamp(2, 3, 0))
    )
    for name in (under_way, other_session, zombie, over):
        _put(storage, name)
    assert collect_garbage(storage).blocks == 2
    assert storage.list("blocks") == [under_way, other_session]


def test_nothing_is_deleted_while_there_is_no_manifest(storage: Storage) -> None:
    name = f"blocks/{Stamp(1, 0, 0)}-a"
    _put(storage, name)
    assert collect_garbage(storage) == Garbage()
    assert storage.list("blocks") == [name]


def test_a_damaged_retained_manifest_stops_the_collection_before_it_deletes(storage: Storage) -> None:
    parent = ""
    for batch in range(5):
        parent = _commit(storage, batch, parent)
    _put(storage, f"blocks/{Stamp(1, 0, 0)}-a")
    name = "manifests/0000000003.0000.json"
    overwrite(storage, name, storage.read(name)[:-1])
    before = storage.list("")
    with pytest.raises(CorruptionError):
        collect_garbage(storage)
    assert storage.list("") == before


def test_torn_temporary_files_and_old_epochs_go_and_the_lock_stays(storage: Storage) -> None:
    _commit(storage, 4)
    _put(storage, "tmp/0000000004.0000.json.aa")
    _put(storage, "tmp/0000000004.0001.json.bb")  # a session that is about to commit
    for epoch in (1, 2, 9):
        _put(storage, f"epochs/{epoch:08d}")
    _put(storage, "lock")
    assert collect_garbage(storage) == Garbage(temporary=1, bytes=5)
    assert storage.list("tmp") == ["tmp/0000000004.0001.json.bb"]
    assert storage.list("epochs") == ["epochs/00000009"]
    assert "lock" in storage.list("")


def test_what_others_put_into_the_checkpoint_stays(storage: Storage) -> None:
    _commit(storage, 0)
    for name in ("notes/readme", "blocks/readme", "tmp/readme"):
        _put(storage, name)
    collect_garbage(storage)
    assert {"notes/readme", "blocks/readme", "tmp/readme"} <= set(storage.list(""))


def test_the_last_manifest_cannot_be_given_up(storage: Storage) -> None:
    _commit(storage, 0)
    with pytest.raises(ValueError, match="at least one"):
        collect_garbage(storage, keep=0)
    assert newest(storage) is not None

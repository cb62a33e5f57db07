from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from anabranch.state.block import BlockMeta
from anabranch.state.errors import CorruptionError, FencedError, ManifestConflict, UnsupportedVersionError
from anabranch.state.manifest import VERSION, Manifest, QueryState, QueryStatus, ResultFile, StreamState
from anabranch.state.manifest_codec import decode, digest, encode
from anabranch.state.manifest_log import load, manifest_keys, newest, publish, recover, verify_chain
from anabranch.state.storage import Storage
from tests.state.samples import overwrite, sample_manifest, sample_meta

int64 = st.integers(-(2**63), 2**63 - 1)
count = st.integers(0, 2**40)
text = st.text(max_size=8)
json_objects = st.dictionaries(
    text,
    st.recursive(
        st.none() | st.booleans() | int64 | st.floats(allow_nan=False, allow_infinity=False) | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
partitions = st.dictionaries(st.integers(0, 300), st.integers(1, 2**31), max_size=12).map(
    lambda rows: tuple(sorted(rows.items()))
)
blocks = st.builds(
    BlockMeta, text, text, count, count, count, count, count, text, int64, int64, int64, partitions=partitions
)
files = st.builds(ResultFile, text, text, count, count, text)
queries = st.builds(QueryState, text, text, count, st.sampled_from(QueryStatus), st.none() | text)
streams = st.builds(StreamState, text, st.none() | int64, st.none() | int64, count, count, count)


def _tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


manifests = st.builds(
    Manifest,
    batch=count,
    step=count,
    parent=text,
    epoch=count,
    attempt=text,
    offsets=text,
    source_id=text,
    committed_at=st.floats(0, 1e12),
    streams=_tuples(streams),
    blocks=_tuples(blocks),
    partition_map=_tuples(count),
    sites=count,
    tracks=st.dictionaries(text, count),
    queries=_tuples(queries),
    catalog=json_objects,
    results=_tuples(files),
    dead_letters=_tuples(files),
    controller=json_objects,
)


def _sealed(content: dict[str, Any]) -> bytes:
    """Encode any content with a checksum that agrees."""
    body = b'",' + json.dumps(content).encode()[1:]
    return b'{"checksum":"' + xxhash.xxh3_128_hexdigest(body).encode() + body


@given(manifests)
def test_a_manifest_survives_its_encoding_and_encodes_to_the_same_bytes_again(manifest: Manifest) -> None:
    data = encode(manifest)
    decoded = decode(data, file="m")
    assert decoded == manifest
    assert encode(decoded) == data
    assert digest(decoded) == json.loads(data)["checksum"]


def test_a_manifest_of_a_later_version_is_refused_with_the_way_out() -> None:
    data = encode(dataclasses.replace(sample_manifest(), version=VERSION + 1))
    told = f"version {VERSION + 1}, this Anabranch reads version {VERSION}"
    with pytest.raises(UnsupportedVersionError, match=told):
        decode(data, file="m")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: content.update(colour="red"), id="unknown field"),
        pytest.param(lambda content: content.pop("epoch"), id="missing field"),
        pytest.param(lambda content: content["blocks"][0].pop(), id="short block"),
        pytest.param(lambda content: content["queries"].append(["q", "f", 1, "asleep", None]), id="status"),
    ],
)
def test_fields_that_the_version_does_not_have_are_refused(change: Any) -> None:
    content = json.loads(encode(sample_manifest(blocks=(sample_meta("a"),))))
    del content["checksum"]
    assert decode(_sealed(content), file="m").batch == 0
    change(content)
    with pytest.raises(CorruptionError, match=f"the fields of version {VERSION}"):
        decode(_sealed(content), file="m")


def test_numbers_json_cannot_hold_are_refused_when_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(sample_manifest(controller={"load": float("nan")}))


def test_an_empty_checkpoint_has_no_manifest(storage: Storage) -> None:
    assert newest(storage) is None
    assert manifest_keys(storage) == []
    assert verify_chain(storage) == 0


def test_steps_follow_their_batch_and_batches_follow_steps(storage: Storage) -> None:
    parent = ""
    expected = []
    for batch, step in [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (10, 0)]:
        manifest = sample_manifest(batch, step, parent)
        parent = publish(storage, manifest)
        assert parent == digest(manifest)
        assert newest(storage) == manifest
        expected.append(manifest)
    assert manifest_keys(storage) == [manifest.key for manifest in expected]
    assert [load(storage, *manifest.key) for manifest in expected] == expected
    assert verify_chain(storage) == 6


def test_publishing_again_after_an_unknown_outcome_is_fine(storage: Storage) -> None:
    manifest = sample_manifest()
    assert publish(storage, manifest) == publish(storage, manifest)


def test_another_attempt_at_a_committed_step_is_a_conflict_that_names_both(storage: Storage) -> None:
    publish(storage, sample_manifest(attempt="first", epoch=4))
    with pytest.raises(ManifestConflict, match=r"attempt 'first' of writer epoch 4.*'second' of epoch 5"):
        publish(storage, sample_manifest(attempt="second", epoch=5))
    assert load(storage, 0, 0).attempt == "first"


def test_one_attempt_cannot_commit_two_contents(storage: Storage) -> None:
    publish(storage, sample_manifest(offsets="a"))
    with pytest.raises(ManifestConflict, match="with other content"):
        publish(storage, sample_manifest(offsets="b"))


def test_a_step_before_the_newest_cannot_be_committed_even_if_its_file_was_collected(
    storage: Storage,
) -> None:
    parent = publish(storage, sample_manifest(0))
    publish(storage, sample_manifest(1, parent=parent))
    storage.delete("manifests/0000000000.0000.json")
    with pytest.raises(ManifestConflict, match="already there"):
        publish(storage, sample_manifest(0, attempt="zombie"))


def test_a_zombie_cannot_commit_even_if_it_does_not_look(storage: Storage) -> None:
    storage.put_if_absent("epochs/00000002", b"")
    with pytest.raises(FencedError, match=r"as writer epoch 1: epoch 2 has taken over"):
        publish(storage, sample_manifest(0, epoch=1))
    assert newest(storage) is None


def test_recovery_returns_the_newest_manifest_and_changes_nothing(storage: Storage) -> None:
    assert recover(storage) is None
    _chain(storage)
    before = storage.scan("")
    assert recover(storage) == newest(storage)
    assert storage.scan("") == before


def test_a_manifest_must_continue_the_newest_one(storage: Storage) -> None:
    publish(storage, sample_manifest(0))
    with pytest.raises(ManifestConflict, match="its parent is 'nonsense'"):
        publish(storage, sample_manifest(1, parent="nonsense"))


def _chain(storage: Storage, length: int = 4) -> list[str]:
    parent = ""
    for batch in range(length):
        parent = publish(storage, sample_manifest(batch, parent=parent))
    return storage.list("manifests")


def test_a_chain_may_have_lost_its_beginning_to_garbage_collection(storage: Storage) -> None:
    files = _chain(storage)
    storage.delete(files[0])
    assert verify_chain(storage) == 3


def test_a_manifest_missing_in_between_breaks_the_chain(storage: Storage) -> None:
    files = _chain(storage)
    storage.delete(files[2])
    with pytest.raises(CorruptionError, match=r"0000000003\.0000\.json: expected parent"):
        verify_chain(storage)


def test_a_manifest_replaced_by_a_valid_other_one_breaks_the_chain(storage: Storage) -> None:
    files = _chain(storage)
    other = dataclasses.replace(load(storage, 1, 0), offsets="other")
    overwrite(storage, files[1], encode(other))
    with pytest.raises(CorruptionError, match=r"0000000002\.0000\.json: expected parent"):
        verify_chain(storage)


def test_a_manifest_under_the_name_of_another_is_found(storage: Storage) -> None:
    files = _chain(storage)
    overwrite(storage, files[3], storage.read(files[2]))
    with pytest.raises(CorruptionError, match=r"expected batch 3, step 0, found batch 2, step 0"):
        newest(storage)


def test_an_epoch_that_falls_breaks_the_chain(storage: Storage) -> None:
    parent = publish(storage, sample_manifest(0, epoch=5))
    publish(storage, sample_manifest(1, parent=parent, epoch=4))
    with pytest.raises(CorruptionError, match="writer epoch 5 or later"):
        verify_chain(storage)


def test_foreign_files_beside_the_manifests_are_ignored(storage: Storage) -> None:
    _chain(storage, 1)
    storage.put_if_absent("manifests/0000000009.0000.json.bak", b"")
    assert [key.batch for key in manifest_keys(storage)] == [0]

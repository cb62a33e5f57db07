from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.state.errors import CorruptionError
from anabranch.state.fence import acquire
from anabranch.state.inspect import describe
from anabranch.state.manifest import QueryState, QueryStatus, ResultFile, StreamState
from anabranch.state.manifest_log import publish
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage
from tests.state.samples import overwrite, sample_manifest, sample_meta


def _fill(storage: Storage) -> None:
    parent = publish(storage, sample_manifest(0))
    manifest = sample_manifest(
        1,
        parent=parent,
        sites=4,
        partition_map=(0, 1, 2, 3),
        streams=(StreamState("orders", 90, 80, 1000, 3, 1),),
        blocks=(
            sample_meta("a", min_ts=5, max_ts=50),
            sample_meta("b", min_ts=1, max_ts=40, rows=7),
            sample_meta("c", state="payments"),
        ),
        queries=(QueryState("q", "f", 0), QueryState("bad", "f", 1, QueryStatus.FAILED, "quota")),
        results=(ResultFile("q", "r1", 10, 100, ""), ResultFile("q", "r2", 5, 50, "")),
        dead_letters=(ResultFile("orders", "d", 3, 30, ""),),
    )
    publish(storage, manifest)


def test_a_checkpoint_is_described_in_plain_json(storage: Storage) -> None:
    with acquire(storage):
        _fill(storage)
        found = describe(storage)
    assert json.loads(json.dumps(found)) == found
    assert found["writer_epoch"] == 1
    assert found["chain"] == {"manifests": 2, "verified": True, "problem": None}
    newest = found["newest"]
    assert (newest["batch"], newest["step"], newest["sites"], newest["partitions"]) == (1, 0, 4, 4)
    assert newest["streams"]["orders"]["watermark"] == 80
    assert newest["states"]["orders"] == {"blocks": 2, "rows": 107, "bytes": 2000, "min_ts": 1, "max_ts": 50}
    assert newest["queries"]["bad"] == {"status": "failed", "since": 1, "failure": "quota"}
    assert newest["results"] == {"q": {"files": 2, "rows": 15, "bytes": 150}}
    assert newest["dead_letters"]["orders"]["rows"] == 3


def test_files_that_the_newest_manifest_needs_and_the_disk_lacks_are_listed(storage: Storage) -> None:
    _fill(storage)
    for name in ("blocks/a", "blocks/c", "staged/r1"):
        storage.put_if_absent(name, b"")
    assert describe(storage)["missing"] == ["blocks/b", "staged/d", "staged/r2"]


def test_a_manifest_collected_while_we_look_is_not_a_problem(storage: Storage) -> None:
    _fill(storage)
    stale = storage.list("manifests")

    class Collecting:
        """Shows a manifest in its first listings that has gone since."""

        def list(self, folder: str) -> list[str]:
            return stale if folder == "manifests" and listings.pop() else storage.list(folder)

        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

    listings = [False] * 20 + [True] * 4
    storage.delete(stale[0])
    assert describe(Collecting())["chain"]["verified"] is True


def test_orphans_are_listed_and_left_alone(storage: Storage) -> None:
    lost = f"blocks/{Stamp(1, 1, 0)}-lost"
    storage.put_if_absent(lost, b"12345")
    _fill(storage)
    assert describe(storage)["orphans"] == {"files": 1, "bytes": 5, "names": [lost], "problem": None}
    assert lost in storage.list("blocks")


def test_an_empty_directory_is_an_empty_checkpoint(storage: Storage) -> None:
    found = describe(storage)
    assert found["newest"] is None
    assert found["writer_epoch"] == 0
    assert found["orphans"]["files"] == 0


def test_a_broken_chain_is_reported_and_a_damaged_newest_manifest_raises(storage: Storage) -> None:
    _fill(storage)
    first, second = storage.list("manifests")
    overwrite(storage, first, b"{}")
    found = describe(storage)
    assert found["chain"]["verified"] is False
    assert "0000000000.0000.json" in found["chain"]["problem"]
    assert "0000000000.0000.json" in found["orphans"]["problem"]
    assert found["newest"]["batch"] == 1
    overwrite(storage, second, b"{}")
    with pytest.raises(CorruptionError):
        describe(storage)

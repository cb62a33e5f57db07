"""A catalog that is written as a log is the catalog, in few files, and costs what changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.state import NO_PARENT, Manifest, PosixStorage, collect_garbage, newest, publish
from anabranch.state import catalog_log as log_module
from anabranch.state.catalog_log import CatalogLog, Changes, merged, patched
from anabranch.state.errors import CorruptionError
from anabranch.state.manifest_codec import digest
from anabranch.state.side_file import read_side_file
from anabranch.state.stamp import Stamp

names = st.sampled_from("abcdef")
places = st.one_of(
    names.map(lambda name: ("queries", name)), names.map(lambda name: ("groups", "g", "members", name))
)
values = st.one_of(st.just([]), st.integers().map(lambda n: [n]), st.just([None]), st.just([{"since": 1}]))
all_changes = st.lists(st.dictionaries(places, values, max_size=4), max_size=30)


@given(all_changes)
def test_changes_one_by_one_and_merged_lead_to_the_same(some: list[Changes]) -> None:
    content: dict[str, Any] = {"queries": {"a": 0}, "groups": {"g": {"members": {}, "open": True}}}
    one_by_one = content
    for changes in some:
        one_by_one = patched(one_by_one, changes)
    assert patched(content, merged(some)) == one_by_one
    assert content == {"queries": {"a": 0}, "groups": {"g": {"members": {}, "open": True}}}


def entry(name: str) -> dict[str, Any]:
    return {"fingerprint": name, "since": 0, "text": f"SELECT {name}"}


def committed(root: Path, *, queries: int, steps: int) -> tuple[PosixStorage, list[CatalogLog], Any]:
    """Steps with each of which one query comes and one goes."""
    storage = PosixStorage(root)
    content: Any = {"queries": {f"q{i}": entry(f"q{i}") for i in range(queries)}, "groups": {}}
    parent, logs = NO_PARENT, [CatalogLog.of(content, Stamp(1, 0, 0))]
    for batch in range(steps):
        if batch:
            changes = {("queries", f"n{batch}"): [entry("n")], ("queries", f"q{batch}"): []}
            content = patched(content, changes)
            logs.append(logs[-1].with_changes(changes, content, Stamp(1, batch, 0)))
        told = Manifest(batch, 0, batch, parent, 1, f"{batch}", "o", "s", 0.0, catalog=content)
        parent = publish(storage, Manifest(**{**fields(told), "catalog_log": logs[-1]}))
    return storage, logs, content


def fields(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Manifest.__slots__}


def test_a_catalog_is_read_as_it_was_and_a_change_writes_little(tmp_path: Path) -> None:
    storage, logs, content = committed(tmp_path, queries=1000, steps=80)
    read_side_file.cache_clear()
    found = newest(storage)
    assert found is not None
    assert found.catalog == content
    assert list(found.catalog["queries"]) == list(content["queries"])
    assert max(len(log.files) for log in logs) <= 1 + 3 * log_module.FAN
    last = [log.changes[-1].file.data for log in logs[1:]]
    whole = len(logs[0].whole.data)
    # A change of a thousand queries' catalog is half a per cent of it, merges included.
    assert sum(map(len, last)) / len(last) < whole / 100
    assert digest(found) == digest(Manifest(**{**fields(found), "queries": found.queries[::-1]}))
    collect_garbage(storage, keep=2)
    kept = {file.name for file in storage.scan("catalogs")}
    assert {file.name for file in logs[-1].files} <= kept <= {f.name for log in logs[-2:] for f in log.files}


def test_a_log_that_has_grown_to_half_of_the_catalog_is_written_whole(tmp_path: Path) -> None:
    _, logs, _ = committed(tmp_path, queries=10, steps=80)
    wholes = {log.whole.name for log in logs}
    assert 2 <= len(wholes) <= 4


@pytest.mark.parametrize("which", [0, 1])
def test_a_lost_file_of_the_log_is_named(tmp_path: Path, which: int) -> None:
    storage, logs, _ = committed(tmp_path, queries=1000, steps=4)
    lost = logs[-1].files[which].name
    (tmp_path / lost).unlink()
    read_side_file.cache_clear()
    with pytest.raises(CorruptionError, match=lost):
        newest(storage)

"""Fixtures for tests of the state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.state.storage import Storage
from tests.support.storages import KINDS, storage_at


@pytest.fixture(scope="module")
def no_sync() -> Iterator[None]:
    """Make syncing free: tests that simulate crashes of the process do not need a slow disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(params=KINDS)
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    """An empty checkpoint: in a directory, then in an object store."""
    return storage_at(tmp_path, request.param)

"""Fixtures for tests of the state."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def no_sync() -> Iterator[None]:
    """Make syncing free: tests that simulate crashes of the process do not need a slow disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield

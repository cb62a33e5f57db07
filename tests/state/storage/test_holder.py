"""Whatever stands in a lock's file, the holder is put into words."""

from __future__ import annotations

import json
import os

import pytest

from anabranch.state.storage.holder import describe_holder, signature


def test_a_holder_is_described_by_what_it_signed() -> None:
    assert describe_holder(json.dumps(signature(3)).encode()).startswith(f"process {os.getpid()} on ")
    assert describe_holder(json.dumps(signature(None)).encode()).endswith(", which is just starting")


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"pid": 7}', b"\xff\x00"])
def test_a_torn_signature_is_no_reason_to_fail(torn: bytes) -> None:
    assert describe_holder(torn) == "another process, which is just starting"

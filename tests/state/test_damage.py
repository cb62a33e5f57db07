"""Flipped bits and lost tails: every one is found before anything is read from the file."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.state.block import map_block
from anabranch.state.errors import CorruptionError
from anabranch.state.manifest_codec import decode, encode
from anabranch.state.manifest_log import newest, publish, verify_chain
from anabranch.state.storage import PosixStorage
from tests.state.samples import sample_block, sample_manifest, sample_meta

SEED = 20_261_115


def _flip(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << (bit % 8)
    return bytes(damaged)


def _damages(data: bytes, *, flips: int) -> list[tuple[str, bytes]]:
    """Flips spread over all regions, with more of them in the head and the footer, and cuts."""
    draw = random.Random(SEED)
    size = len(data)
    regions = [(0, min(size, 16)), (0, size), (size * 9 // 10, size), (max(0, size - 16), size)]
    bits = {draw.randrange(8 * low, 8 * high) for low, high in regions for _ in range(flips // 4)}
    cuts = {0, 1, size - 1, size // 2} | {draw.randrange(size) for _ in range(flips // 4)}
    flipped = [(f"bit {bit} of {8 * size}", _flip(data, bit)) for bit in sorted(bits)]
    cut = [(f"cut to {kept} of {size}", data[:kept]) for kept in sorted(cuts)]
    return [
        *flipped,
        *cut,
        ("grown", data + b"\0"),
        ("zeroed tail", data[: size // 2] + bytes(size - size // 2)),
    ]


def _finds_damage(read: Callable[[], object], *, file: str) -> bool:
    try:
        read()
    except CorruptionError as error:
        return file in str(error)
    return False


def test_every_damage_to_a_block_is_found_before_arrow_reads_it(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    meta = sample_block(storage, rows=500)
    path = tmp_path / "blocks" / meta.name
    data = path.read_bytes()
    damages = _damages(data, flips=400)
    assert len(damages) > 400
    for what, damaged in damages:
        path.write_bytes(damaged)
        assert _finds_damage(lambda: map_block(storage, meta), file=meta.name), f"seed {SEED}: {what}"
    path.write_bytes(data)
    assert map_block(storage, meta).num_rows == 500


def test_every_single_bit_of_a_small_manifest_is_protected() -> None:
    data = encode(sample_manifest(3, blocks=(sample_meta("a", partitions=((1, 2), (2, 3))),)))
    for bit in range(8 * len(data)):
        damaged = _flip(data, bit)
        assert _finds_damage(partial(decode, damaged, file="manifests/x"), file="manifests/x"), f"bit {bit}"


def test_every_damage_to_the_newest_manifest_is_an_error_and_never_a_step_back(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    parent = publish(storage, sample_manifest(0))
    publish(storage, sample_manifest(1, parent=parent, blocks=tuple(sample_meta(f"b{i}") for i in range(20))))
    name = "manifests/0000000001.0000.json"
    path = tmp_path / name
    data = path.read_bytes()
    for what, damaged in _damages(data, flips=200):
        path.write_bytes(damaged)
        for read in (newest, verify_chain):
            assert _finds_damage(partial(read, storage), file=name), f"seed {SEED}: {what}"
        with pytest.raises(StateError):
            publish(storage, sample_manifest(2, parent=parent))

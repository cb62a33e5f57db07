"""Different keys with the same 64-bit hash, as Spark's xxhash64 computes it.

From 32 bytes on, xxHash64 runs four independent accumulators over stripes of four words::

    acc = rotl(acc + word * P2, 31) * P1

so that a change in the first word of a stripe can be undone by one in the same lane of the next.
"""

from __future__ import annotations

P1 = 0x9E3779B185EBCA87
P2 = 0xC2B2AE3D27D4EB4F
MASK = (1 << 64) - 1
SEED = 42
"""Spark's."""


def colliding_pair(number: int) -> tuple[bytes, bytes]:
    """Two different keys of 64 bytes with equal hashes; another pair for every number."""
    words = [number, 1, 2, 3, 4, 5, 6, 7]
    other = list(words)
    other[0] = words[0] ^ 0xFFFF
    start = (SEED + P1 + P2) & MASK  # the accumulator of lane 0
    ours, theirs = _round(start, words[0]), _round(start, other[0])
    other[4] = (words[4] + (ours - theirs) * pow(P2, -1, 1 << 64)) & MASK
    assert _round(ours, words[4]) == _round(theirs, other[4])
    return _bytes(words), _bytes(other)


def _round(acc: int, word: int) -> int:
    mixed = (acc + word * P2) & MASK
    return (((mixed << 31) | (mixed >> 33)) & MASK) * P1 & MASK


def _bytes(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)

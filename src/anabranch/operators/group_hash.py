"""Hashes of groups of a join's results: in the partition of the join, and apart from each other there.

A result stays where the join made it, so that its partition, the top bits of its hash, is given. The other
bits are a hash of the group keys, computed here because a key may span streams. Blocks keep them, so that
they must never change; that two groups share one is rare and costs time, not correctness (`group_keys`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.exchange.partition_map import PARTITION_BITS
from anabranch.operators.arrays import Int64s
from anabranch.operators.column_codes import decimal_words, has_codes, to_codes, validity
from anabranch.operators.order import combine_hashes

_PRIME = np.uint64(0x100000001B3)
_NULL = 0x5851F42D4C957F2D


def group_hashes(hashes: Int64s, keys: Sequence[pa.Array]) -> Int64s:
    """The routing hashes with all bits below the partition taken from the group keys."""
    seed = np.zeros(len(hashes), dtype=np.int64)
    mixed = combine_hashes([seed, *(part for key in keys for part in _parts(key))]).view(np.uint64)
    below = np.uint64((1 << 64 - PARTITION_BITS) - 1)
    found: Int64s = ((hashes.view(np.uint64) & ~below) | (mixed & below)).view(np.int64)
    return found


def _parts(key: pa.Array) -> list[Int64s]:
    """A key as numbers that are equal where its values are."""
    if pa.types.is_decimal(key.type):
        parts = [word.copy() for word in decimal_words(key)]
    elif has_codes(key.type):
        parts = [to_codes(key)]
    else:
        parts = [_text_hashes(key)]
    return [np.where(validity(key), part, _NULL) if key.null_count else part for part in parts]


def _text_hashes(key: pa.Array) -> Int64s:
    """Each byte times a power that depends on its place, added up; and the length."""
    key = key.cast(pa.large_binary())
    offsets = np.frombuffer(key.buffers()[1], dtype=np.int64)[key.offset : key.offset + len(key) + 1]
    lengths = np.diff(offsets)
    data = key.buffers()[2]
    sums: npt.NDArray[np.uint64] = np.zeros(len(key) + 1, dtype=np.uint64)
    if len(key) and offsets[-1] > offsets[0]:
        octets = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
        place = np.arange(len(octets)) - np.repeat(offsets[:-1] - offsets[0], lengths)
        powers = np.cumprod(np.full(int(lengths.max()), _PRIME))
        # Sums wrap around, so that differences of running sums are exact.
        running = np.append(np.uint64(0), np.cumsum(octets.astype(np.uint64) * powers[place]))
        sums = running[offsets - offsets[0]]
        sums = np.append(np.uint64(0), np.diff(sums))
    found: Int64s = (sums[1:] + lengths.astype(np.uint64)).view(np.int64)
    return found

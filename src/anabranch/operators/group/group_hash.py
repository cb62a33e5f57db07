"""Addresses of groups of a join's results: a hash of the group keys, in the partition of the join or in any.

The hash is computed here because a key may span streams. Blocks keep it, so that it must never change; that
two groups share one is rare and costs time, not correctness (`group_keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from anabranch.exchange.address import at_partition
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import decimal_words, has_codes, to_codes, validity
from anabranch.operators.rows.order import combine_hashes

_PRIME = np.uint64(0x100000001B3)
_NULL = 0x5851F42D4C957F2D


def group_hashes(
    keys: Sequence[pa.Array], rows: int, *, seed: int = 0, partitions: npt.NDArray[Any] | None = None
) -> Int64s:
    """The address of each row's group.

    Parameters
    ----------
    rows
        How many there are; a group without keys has them all.
    seed
        Where the one group without keys lies.
    partitions
        Where groups stay in the partition of the join: that of each row.
    """
    start = np.full(rows, seed if not keys else 0, dtype=np.int64)
    mixed = combine_hashes([start, *(part for key in keys for part in _parts(key))])
    return mixed if partitions is None else at_partition(partitions, mixed)


def seed_of(state: str) -> int:
    """A number by which queries without group keys are spread over partitions."""
    return xxhash.xxh3_64_intdigest(state.encode()) >> 1


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

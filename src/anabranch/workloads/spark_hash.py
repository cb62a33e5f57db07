"""Spark's `xxhash64` of a long, in NumPy: to know beforehand where a key will go."""

from __future__ import annotations

import numpy as np

from anabranch.operators.rows.arrays import Int64s

_P1, _P2, _P3 = (np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_SEED = np.uint64(42)


def xxhash64_longs(values: Int64s) -> Int64s:
    """What Spark SQL's `xxhash64(CAST(value AS BIGINT))` gives.

    >>> xxhash64_longs(np.array([0, 1])).tolist()
    [-5252525462095825812, -7001672635703045582]
    """
    with np.errstate(over="ignore"):
        longs = np.asarray(values, dtype=np.int64).view(np.uint64)
        h = (_SEED + _P5 + np.uint64(8)) ^ (_rotated(longs * _P2, 31) * _P1)
        h = _rotated(h, 27) * _P1 + _P4
        h = (h ^ (h >> np.uint64(33))) * _P2
        h = (h ^ (h >> np.uint64(29))) * _P3
        return (h ^ (h >> np.uint64(32))).view(np.int64)


def _rotated(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))

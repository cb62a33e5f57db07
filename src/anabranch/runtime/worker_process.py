"""What a worker's process is told once, so that batches are not spent on housekeeping."""

from __future__ import annotations

import ctypes
import gc
from functools import cache

import pyarrow as pa

KEPT = 256 << 20
"""Bytes of freed memory that a worker keeps for its next batch."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""`mallopt` parameters of glibc."""


@cache
def keep_memory() -> None:
    """Keep memory that a batch has freed for the next one, instead of giving it back to the kernel.

    Taking it again costs a page fault per 4 KiB, which was half of the time of a batch that rebuilds large
    states. Arrow and NumPy share one heap, so that either can use what the other has freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return  # not glibc
    mallopt(_TRIM_THRESHOLD, KEPT)
    mallopt(_TOP_PAD, KEPT // 4)
    mallopt(_MMAP_THRESHOLD, KEPT)
    pa.set_memory_pool(pa.system_memory_pool())


@cache
def spare_modules() -> None:
    """Take what a worker has loaded by its first task out of garbage collection.

    Spark's worker collects garbage after every task: with the objects of all imported modules in it, that
    takes longer than a small batch.
    """
    gc.collect()
    gc.freeze()

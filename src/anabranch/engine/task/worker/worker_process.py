"""The process of a worker: batches are not spent on its housekeeping."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import traceback
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

KEPT = 256 << 20
"""Bytes of freed memory that a worker keeps for its next batch, at most."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""`mallopt` parameters of glibc."""


class _HeapUse(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@cache
def keep_memory() -> None:
    """Keep memory that a batch has freed for the next one, instead of giving it back to the kernel.

    Taking it again costs a page fault per 4 KiB, which was half of the time of a batch that rebuilds large
    states. Arrow and NumPy share one heap, so that either can use what the other has freed.
    """
    libc = _glibc()
    if libc is None:
        return
    libc.mallopt(_TRIM_THRESHOLD, KEPT)
    libc.mallopt(_TOP_PAD, KEPT // 4)
    libc.mallopt(_MMAP_THRESHOLD, KEPT)
    pa.set_memory_pool(pa.system_memory_pool())


def give_back_surplus() -> None:
    """Give back what is free when the process holds more than `KEPT` beyond what is in use.

    By itself the C library gives back only what is free at the end of the heap: one small array that
    outlives its batch would keep all that lies before it.
    """
    libc = _glibc()
    if libc is None:
        return
    use = libc.mallinfo2()
    if _private_bytes() > use.uordblks + use.hblkhd + KEPT:
        libc.malloc_trim(0)


def _private_bytes() -> int:
    """Memory that the process holds and shares with no file."""
    resident, shared = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
    return (resident - shared) * resource.getpagesize()


@cache
def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is a glibc that can be told what to keep (2.33 or later)."""
    libc = ctypes.CDLL(None)
    if not all(hasattr(libc, name) for name in ("mallopt", "mallinfo2", "malloc_trim")):
        return None
    libc.mallinfo2.restype = _HeapUse
    libc.malloc_trim.argtypes = (ctypes.c_size_t,)
    return libc


@lru_cache(maxsize=8)
def spare_loaded(what: str) -> None:
    """Take what a worker has loaded out of garbage collection, once for everything that it is told.

    Spark's worker collects garbage after every task. With the objects of all imported modules in it that
    takes longer than a small batch; with a hundred thousand queries, longer than a large one.

    Parameters
    ----------
    what
        Names the constants of the task: what they bring is not there until a task has used them.
    """
    gc.unfreeze()  # what has been forgotten since goes
    gc.collect()
    gc.freeze()


@cache
def end_quietly() -> None:
    """Let a worker go without a word that has had nothing to do for a minute.

    Spark closes its socket. The worker tries to say so through that socket, and fails. Spark's daemon, of
    which every worker is a copy, prints the failure in the middle of what a user reads.
    """
    daemon: Any = sys.modules["__main__"]
    if getattr(daemon, "traceback", None) is traceback:
        daemon.traceback = _Traceback()


class _Traceback:
    """The module `traceback`, which says nothing of pipes that nobody reads any more."""

    def print_exc(self) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

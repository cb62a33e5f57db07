"""What a worker's process is told once."""

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
import pyarrow as pa
from anabranch.runtime.worker_process import KEPT, keep_memory

def private_mb():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) >> 10

if sys.argv[1] == "keep":
    keep_memory()
before = private_mb()
held = [np.ones(4 << 20, np.uint8) for _ in range(32)]
del held
print(pa.default_memory_pool().backend_name, private_mb() - before)
"""


def _after_freeing_128_mb(wish: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, wish], capture_output=True, text=True, check=True, timeout=60
    )
    pool, kept = done.stdout.split()
    return pool, int(kept)


def test_freed_memory_stays_for_the_next_batch() -> None:
    pool, kept = _after_freeing_128_mb("keep")
    assert pool == "system"  # Arrow's rows and NumPy's arrays share one heap
    assert kept >= 100


def test_without_it_freed_memory_goes_back_to_the_kernel() -> None:
    assert _after_freeing_128_mb("usual")[1] < 50

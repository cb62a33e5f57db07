"""What a worker's process is told once."""

import subprocess
import sys

from anabranch.engine.task.worker.worker_process import KEPT

SCRIPT = """
import sys
import numpy as np
import pyarrow as pa
from anabranch.engine.task.worker.worker_process import give_back_surplus, keep_memory

def private_mb():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) >> 10

if sys.argv[1] == "keep":
    keep_memory()
before = private_mb()
held = [np.ones(4 << 20, np.uint8) for _ in range(int(sys.argv[2]) // 4)]
outlives = np.ones(200 << 10, np.uint8)
del held
give_back_surplus()
print(pa.default_memory_pool().backend_name, private_mb() - before)
"""


def _after_freeing(megabytes: int, preference: str = "keep") -> tuple[str, int]:
    """Arrow's pool, and what the process has more than before, in MiB."""
    command = [sys.executable, "-c", SCRIPT, preference, str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    pool, kept = done.stdout.split()
    return pool, int(kept)


def test_freed_memory_stays_for_the_next_batch() -> None:
    pool, kept = _after_freeing(128)
    assert pool == "system"  # Arrow's rows and NumPy's arrays share one heap
    assert kept >= 100


def test_without_it_freed_memory_goes_back_to_the_kernel() -> None:
    assert _after_freeing(128, "usual")[1] < 50


def test_no_more_is_kept_than_it_may_be_although_something_small_outlives_it() -> None:
    assert _after_freeing(600)[1] <= KEPT >> 20


SPARED = """
import gc
from anabranch.engine.task.worker.worker_process import spare_loaded

def told(what):
    spare_loaded(what)
    return sum(type(thing) is Query for thing in gc.get_objects())  # of those that are collected

class Query:
    pass

queries = [Query() for _ in range(100)]
print(told("some queries"))
queries += [Query() for _ in range(10)]
print(told("some queries"), told("more queries"))
"""


def test_what_constants_bring_is_not_looked_through_after_every_task() -> None:
    done = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "10", "0"]


ENDS = """
import traceback
from anabranch.engine.task.worker.worker_process import end_quietly

end_quietly()
for error in (BrokenPipeError("nobody listens"), ValueError("something else")):
    try:
        raise error
    except Exception:
        traceback.print_exc()  # as Spark's daemon does, of which a worker is a copy
"""


def test_a_worker_whose_pipe_nobody_reads_any_more_ends_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert "ValueError: something else" in done.stderr
    assert "BrokenPipeError" not in done.stderr

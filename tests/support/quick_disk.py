"""Temporary files of tests lie in memory: a thousand sessions should not wait for a disk.

What a disk loses when the power fails is simulated (`disk_faults`), and a process that is killed loses
nothing of what it has written to memory, either.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH = 6 << 30
"""Bytes that have to be free."""


def use_memory_for_temporary_files() -> None:
    """For this process and those that it starts, unless `TMPDIR` names another place."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # forgets the place that was found before

"""Who holds a checkpoint: what a holder writes down, and what those who are refused are told."""

from __future__ import annotations

import json
import os
import socket
from typing import Any


def signature(epoch: int | None) -> dict[str, Any]:
    """This process, as JSON; without an epoch it is just starting."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "epoch": epoch}


def describe_holder(signed: bytes) -> str:
    """Put a signature into words.

    >>> describe_holder(b'{"pid": 7, "host": "a", "epoch": 3}')
    'process 7 on a (writer epoch 3)'
    """
    try:
        holder = json.loads(signed)
        if holder["epoch"] is None:
            return f"process {holder['pid']} on {holder['host']}, which is just starting"
        return f"process {holder['pid']} on {holder['host']} (writer epoch {holder['epoch']})"
    except (ValueError, KeyError, TypeError):
        return "another process, which is just starting"

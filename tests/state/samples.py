"""Small tables, blocks and manifests to test with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.state.block import BlockMeta, unique_part, write_block
from anabranch.state.manifest import NO_PARENT, Manifest
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


def sample_table(rows: int = 50, *, seed: int = 0) -> pa.Table:
    """Rows with a sorted hash, a time, a number with NULLs and a text."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "h": np.sort(rng.integers(-(2**63), 2**63 - 1, rows)),
            "ts": rng.integers(0, 1_000_000, rows),
            "amount": pa.array([None if i % 7 == 0 else float(i) for i in range(rows)], pa.float64()),
            "note": pa.array([f"row {i} é" for i in range(rows)], pa.string()),
        }
    )


def sample_block(
    storage: Storage, *, batch: int = 0, rows: int = 50, seed: int = 0, **given: Any
) -> BlockMeta:
    """Write a block of `sample_table`."""
    parts: dict[str, Any] = {
        "state": "orders",
        "stamp": Stamp(1, batch, 0),
        "slot": 0,
        "unique": unique_part(1),
        "min_ts": 0,
        "max_ts": 10,
    }
    return write_block(storage, sample_table(rows, seed=seed), batch=batch, **(parts | given))


def sample_meta(name: str, **given: Any) -> BlockMeta:
    """A description of a block that does not exist."""
    fields: dict[str, Any] = {
        "state": "orders",
        "batch": 0,
        "slot": 0,
        "rows": 100,
        "bytes": 1000,
        "checksum": "0" * 16,
        "min_ts": 0,
        "max_ts": 0,
    } | given
    fields.setdefault("last_batch", fields["batch"])
    fields.setdefault("max_deadline", fields["max_ts"])
    return BlockMeta(name=name, **fields)


def sample_manifest(batch: int = 0, step: int = 0, parent: str = NO_PARENT, **given: Any) -> Manifest:
    """A manifest of an almost empty checkpoint."""
    fields: dict[str, Any] = {
        "epoch": 1,
        "attempt": f"attempt-{batch}-{step}",
        "offsets": f"offsets-{batch}",
        "source_id": "spark-checkpoint",
        "committed_at": 1_700_000_000.5,
    }
    return Manifest(batch=batch, step=step, number=batch + step, parent=parent, **(fields | given))


def overwrite(storage: Storage, name: str, data: bytes) -> None:
    """Change a file, as only damage does."""
    storage.delete(name)
    assert storage.put_if_absent(name, data)

"""Addresses: 64 bits that tell the partition of a row and, inside it, which rows may be its equals.

The top bits are the partition, which a router has chosen; the others come from the hash of the row's keys:

    ┌────────────┬────────────────────────────────────────────────────────┐
    │ partition  │ rest of the key's hash                                 │
    └────────────┴────────────────────────────────────────────────────────┘

Under the hash router the whole address is the key's hash. Blocks are sorted by address, so that a partition
is a contiguous slice of every block, and rows with equal keys lie side by side in it. This is the only
place that knows where in an address the partition is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PARTITION_BITS = 8
PARTITIONS = 1 << PARTITION_BITS
BELOW_PARTITION = 64 - PARTITION_BITS
"""Bits below the partition."""

Addresses = npt.NDArray[np.int64]

_REST = np.uint64((1 << BELOW_PARTITION) - 1)


def partition_of(addresses: Addresses) -> npt.NDArray[Any]:
    """Partition of each address.

    >>> partition_of(np.array([0, -1, 1 << 56])).tolist()
    [0, 255, 1]
    """
    return (addresses.view(np.uint64) >> np.uint64(BELOW_PARTITION)).astype(np.int32)


def at_partition(partitions: npt.NDArray[Any], hashes: Addresses) -> Addresses:
    """Addresses in given partitions, with the rest of the hashes.

    >>> [hex(a) for a in at_partition(np.array([1, 2]), np.array([-1, 5])).tolist()]
    ['0x1ffffffffffffff', '0x200000000000005']
    """
    chosen = partitions.astype(np.uint64) << np.uint64(BELOW_PARTITION)
    found: Addresses = (chosen | (hashes.view(np.uint64) & _REST)).view(np.int64)
    return found


def partition_sql(address: str) -> str:
    """Spark SQL for the partition of an address."""
    return f"CAST(shiftrightunsigned({address}, {BELOW_PARTITION}) AS INT)"


def at_partition_sql(partition: str, address: str) -> str:
    """Spark SQL for an address in another partition."""
    rest = f"({address} & {(1 << BELOW_PARTITION) - 1}L)"
    return f"(shiftleft(CAST({partition} AS BIGINT), {BELOW_PARTITION}) | {rest})"

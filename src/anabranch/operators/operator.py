"""What the engine asks of an operator: to work on one site's rows, and what it keeps for later.

The state of a partition (Flux, section 3.2) is here a set of rows in immutable blocks: a
contiguous slice of each, because blocks are sorted by routing hash. So the interface that the
paper gives an operator is small:

=================  ==============================================================================
take a partition   nothing to do: its slices are named by the manifest
install it         nothing to do: the partition map names another site, which opens the slices
sizes              `BlockMeta.partitions`: rows per partition, written with every block
what to keep       `kept_states`: which states, until when, how many rows per group
=================  ==============================================================================

An operator that describes its state by `KeptState` can be moved, rescaled, compacted and expired
without knowing of it.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.states.state_id import StateId


class Operator(Protocol):
    """A query at one site, for one step."""

    @property
    def kept(self) -> dict[StateId, list[pa.RecordBatch]]:
        """New rows of states that the operator makes itself, in pieces."""

    @property
    def pairs(self) -> int:
        """How much it examined, as a measure of work."""

    @property
    def pairs_by_partition(self) -> Int64s: ...

    def run(self) -> None:
        """Evaluate the step."""

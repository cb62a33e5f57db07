"""Sets of partitions: small, immutable, quick to intersect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import PARTITIONS


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Some of the partitions, one bit for each.

    >>> low = PartitionSet.of([0, 3])
    >>> low | PartitionSet.of([7]), 3 in low, len(low - PartitionSet.of([3]))
    (PartitionSet.of([0, 3, 7]), True, 1)
    """

    bits: int = 0

    @classmethod
    def of(cls, partitions: Iterable[int]) -> PartitionSet:
        bits = 0
        for partition in partitions:
            bits |= 1 << int(partition)
        return cls(bits)

    @classmethod
    def where(cls, flags: npt.NDArray[np.bool_]) -> PartitionSet:
        """The partitions whose flag is set."""
        return cls(int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little"))

    @classmethod
    def from_hex(cls, text: str) -> PartitionSet:
        return cls(int(text, 16))

    def to_hex(self) -> str:
        """For manifests.

        >>> PartitionSet.from_hex(PartitionSet.of([4]).to_hex()) == PartitionSet.of([4])
        True
        """
        return hex(self.bits)

    def flags(self) -> npt.NDArray[np.bool_]:
        """One flag per partition."""
        packed = np.frombuffer(self.bits.to_bytes(PARTITIONS // 8, "little"), dtype=np.uint8)
        return np.unpackbits(packed, bitorder="little").astype(np.bool_)

    def __or__(self, other: PartitionSet) -> PartitionSet:
        return PartitionSet(self.bits | other.bits)

    def __and__(self, other: PartitionSet) -> PartitionSet:
        return PartitionSet(self.bits & other.bits)

    def __sub__(self, other: PartitionSet) -> PartitionSet:
        return PartitionSet(self.bits & ~other.bits)

    def __bool__(self) -> bool:
        return self.bits != 0

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __contains__(self, partition: int) -> bool:
        return self.bits >> partition & 1 == 1

    def __iter__(self) -> Iterator[int]:
        bits = self.bits
        while bits:
            lowest = bits & -bits
            yield lowest.bit_length() - 1
            bits ^= lowest

    def __repr__(self) -> str:
        return f"PartitionSet.of({list(self)})"


NOTHING = PartitionSet()
EVERY = PartitionSet((1 << PARTITIONS) - 1)


def union(sets: Iterable[PartitionSet]) -> PartitionSet:
    """All partitions of some sets."""
    bits = 0
    for partitions in sets:
        bits |= partitions.bits
    return PartitionSet(bits)

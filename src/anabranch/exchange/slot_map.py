"""Which slots get the rows of a partition: its owner's, and those of others that still work on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import Addresses, partition_of, partition_sql
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Partition → slots, nearly always one."""

    slots_of: tuple[tuple[int, ...], ...]
    slots: int

    @classmethod
    def of(
        cls, partition_map: PartitionMap, slots: int, also: Iterable[tuple[int, PartitionSet]] = ()
    ) -> SlotMap:
        """The slots of a step.

        Parameters
        ----------
        also
            Sites that work on partitions of others, and these partitions.
        """
        found = [[slot] for slot in partition_map.slot_of_partition(slots)]
        for site, partitions in also:
            slot = partition_map.slot_of_site(site, slots)
            for partition in partitions:
                if slot not in found[partition]:
                    found[partition].append(slot)
        return cls(tuple(map(tuple, found)), slots)

    def rows_of(self, slot: int, addresses: Addresses) -> npt.NDArray[np.bool_]:
        """Which rows a slot gets."""
        mine = np.array([slot in slots for slots in self.slots_of])
        chosen: npt.NDArray[np.bool_] = mine[partition_of(addresses)]
        return chosen

    def owner_rows(self, addresses: Addresses) -> npt.NDArray[np.int64]:
        """The slot that owns each row."""
        owners = np.array([slots[0] for slots in self.slots_of])
        found: npt.NDArray[np.int64] = owners[partition_of(addresses)]
        return found

    @property
    def copies(self) -> bool:
        """Whether some rows go to several slots."""
        return any(len(slots) > 1 for slots in self.slots_of)

    def sql(self, address: str) -> str:
        """Spark SQL for the slot of an address, or for the array of its slots where some have several.

        One text constant, which Spark folds to an array: hundreds of literals would have to be analysed.
        """
        table = f"split('{';'.join(_listed(slots) for slots in self.slots_of)}', ';')"
        partition = partition_sql(address)
        if self.copies:
            return f"CAST(split(get({table}, {partition}), ',') AS ARRAY<INT>)"
        return f"get(CAST({table} AS ARRAY<INT>), {partition})"


def _listed(slots: Sequence[int]) -> str:
    return ",".join(map(str, slots))

"""Which slots get the rows of a partition: its owner's, and those of others that still work on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import Addresses, partition_of, partition_sql
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.router import INPUT_MASK, Tags


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Partition → slots, nearly always one."""

    slots_of: tuple[tuple[int, ...], ...]
    slots: int
    homes: tuple[int, ...] = ()
    """By input the one slot that gets all of its rows, or -1; empty where no input has one."""

    @classmethod
    def of(
        cls,
        partition_map: PartitionMap,
        slots: int,
        also: Iterable[tuple[int, PartitionSet]] = (),
        homes: Sequence[int] = (),
    ) -> SlotMap:
        """The slots of a step.

        Parameters
        ----------
        also
            Sites that work on partitions of others, and these partitions.
        homes
            By input the site that works on all of its rows, or -1.
        """
        found = [[slot] for slot in partition_map.slot_of_partition(slots)]
        for site, partitions in also:
            slot = partition_map.slot_of_site(site, slots)
            for partition in partitions:
                if slot not in found[partition]:
                    found[partition].append(slot)
        at_home = (home if home < 0 else partition_map.slot_of_site(home, slots) for home in homes)
        return cls(tuple(map(tuple, found)), slots, tuple(at_home))

    def rows_of(self, slot: int, addresses: Addresses, tags: Tags) -> npt.NDArray[np.bool_]:
        """Which rows a slot gets."""
        mine = np.array([slot in slots for slots in self.slots_of])
        chosen: npt.NDArray[np.bool_] = mine[partition_of(addresses)]
        if self.homes:
            home = np.array(self.homes)[(np.maximum(tags, 0) & INPUT_MASK) >> 1]
            chosen = np.where((tags >= 0) & (home >= 0), home == slot, chosen)
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

    def sql(self, address: str, tag: str) -> str:
        """Spark SQL for the slot of an address, or for the array of its slots where some have several.

        One text constant, which Spark folds to an array: hundreds of literals would have to be analysed.
        """
        table = f"split('{';'.join(_listed(slots) for slots in self.slots_of)}', ';')"
        partition = partition_sql(address)
        found = f"get(CAST({table} AS ARRAY<INT>), {partition})"
        if self.copies:
            found = f"CAST(split(get({table}, {partition}), ',') AS ARRAY<INT>)"
        if not self.homes:
            return found
        homes = f"CAST(split('{_listed(self.homes)}', ',') AS ARRAY<INT>)"
        home = f"get({homes}, shiftright(greatest({tag}, 0) & {INPUT_MASK}, 1))"
        there = f"array({home})" if self.copies else home
        return f"CASE WHEN {tag} >= 0 AND {home} >= 0 THEN {there} ELSE {found} END"


def _listed(slots: Sequence[int]) -> str:
    return ",".join(map(str, slots))

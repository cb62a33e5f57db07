"""Output modules: where rows of a place may go on, and the bits that say which (Zhou, COSMOS, section 5.3.2).

A row carries its *global footprint*: a bit for every place that has worked on it. A module lets a row pass
when the footprint, under the *validating mask*, is equal to the *allowing bits*. They ask for the place that
the row comes from and for a parent of the next one, and forbid the next one itself. So a row never comes to a
place twice (redundant routing), nor to one that has nothing to do with it (void routing).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from anabranch.plan.stations.distributed_graph import DistributedGraph, Place


@dataclass(frozen=True, slots=True)
class OutputModule:
    """A way from one place to another.

    Attributes
    ----------
    collects
        Whether rows have a choice here, so that it collects what an eddy decides by: a remote meta-operator
        (RMO); otherwise it only sends (RO).
    """

    source: Place
    target: Place
    allowing: int
    validating: int
    collects: bool = False

    def admits(self, footprint: int) -> bool:
        """Whether a row may go this way."""
        return footprint & self.validating == self.allowing


@dataclass(frozen=True, slots=True)
class DistributedPlan:
    """Places and the ways between them; `bits` has the bit of every place."""

    bits: Mapping[Place, int]
    modules: tuple[OutputModule, ...]

    @classmethod
    def of(cls, graph: DistributedGraph) -> DistributedPlan:
        """Set the ways up: algorithms 5.2 and 5.3."""
        return _SetUp(graph).run()

    def footprint(self, places: Iterable[Place]) -> int:
        """The footprint of a row on which some places have worked."""
        return sum(self.bits[place] for place in places)

    def ways(self, place: Place, footprint: int) -> tuple[Place, ...]:
        """Where a row may go on."""
        return tuple(m.target for m in self.modules if m.source == place and m.admits(footprint))

    def written(self, bits: int) -> str:
        """Bits in the order of the places."""
        return "".join("1" if bits & bit else "0" for bit in self.bits.values())


class _SetUp:
    def __init__(self, graph: DistributedGraph) -> None:
        self._graph = graph
        self._bits = {place: 1 << number for number, place in enumerate(graph.places)}
        self._modules: dict[tuple[Place, Place], OutputModule] = {}
        self._ancestors: dict[Place, set[Place]] = {place: set() for place in graph.places}

    def run(self) -> DistributedPlan:
        """Algorithm 5.2: from every self-contained place, breadth first, to all that follow it."""
        for start in self._graph.places:
            if self._graph.is_self_contained(start):
                self._from(start)
        return DistributedPlan(self._bits, tuple(self._modules.values()))

    def _from(self, start: Place) -> None:
        visited, waiting = [start], deque([start])
        while waiting:
            here = waiting.popleft()
            for place in self._graph.next[here]:
                self._ancestors[place] |= self._ancestors[here] | {here}
                for other in visited:
                    # Ancestors send nothing but through parents, and get nothing back (observation 5.1).
                    if other not in self._ancestors[place] or other == here:
                        self._connect(other, place)
                    if other not in self._ancestors[place]:
                        self._connect(place, other)
                visited.append(place)
                waiting.append(place)

    def _connect(self, source: Place, target: Place) -> None:
        """Algorithm 5.3.

        Beside what is printed: no way leads back to an ancestor (observation 5.1), and the module is there
        before those that follow from it, so that it ends.
        """
        if source == target or (source, target) in self._modules or target in self._ancestors[source]:
            return
        others = [module.target for at, module in self._modules.items() if at[0] == source]
        parent = self._graph.parent_towards(target, source)
        wanted = self._bits[source] | self._bits[parent]
        self._modules[source, target] = OutputModule(
            source, target, wanted, wanted | self._bits[target], collects=bool(others)
        )
        for other in others:
            self._modules[source, other] = replace(self._modules[source, other], collects=True)
            # Rows that take one of the two ways may have to take the other later.
            self._connect(target, other)
            self._connect(other, target)

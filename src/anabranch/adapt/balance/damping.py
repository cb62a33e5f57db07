"""How long to watch before the next decision (Flux, section 5.3).

    |-- collect δ --|--- move ---|-- collect δ' = move --|- (nothing moved) -|- δ'/2 -| …  never under δ_min

At most half of the time is spent moving, however bad the decisions are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damping:
    """Length of the collection phase, in the driver's unit of time (seconds, or batches).

    >>> calm = Damping(minimum=1.0)
    >>> calm.next_length(4.0, moved=True, move_phase=6.0)
    6.0
    >>> calm.next_length(6.0, moved=False, move_phase=0.0)
    3.0
    >>> calm.next_length(1.5, moved=False, move_phase=0.0)
    1.0
    """

    minimum: float

    def next_length(self, previous: float, *, moved: bool, move_phase: float) -> float:
        return max(self.minimum, move_phase if moved else previous / 2)

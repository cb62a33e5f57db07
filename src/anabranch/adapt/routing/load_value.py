"""The load value of a site: w = Σ ω · usage / capacity over its resources (Gu, Yu, Wang, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each resource counts; joins without an equality are bound by CPU time."""

    cpu: float = 0.8
    memory: float = 0.1
    bandwidth: float = 0.1

    def __post_init__(self) -> None:
        parts = self.cpu, self.memory, self.bandwidth
        if min(parts) < 0 or abs(sum(parts) - 1) > 1e-9:
            raise ValueError(f"weights of resources are not negative and add up to 1, unlike {parts}")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the sites use of a resource, and what they have of it; without a known capacity all have the same.

    >>> Usage((1.0, 3.0), (2.0, 2.0)).share().tolist()
    [0.5, 1.5]
    """

    used: Sequence[float] | Floats
    capacity: Sequence[float] | Floats | None = None

    def share(self) -> Floats:
        used: Floats = np.array(self.used, dtype=float)
        if self.capacity is not None:
            used /= np.asarray(self.capacity, dtype=float)
            return used
        used /= used.mean() or 1.0
        return used


def load_values(cpu: Usage, memory: Usage, bandwidth: Usage, weights: Weights | None = None) -> Floats:
    """The load value of each site.

    >>> idle = Usage((0.0, 0.0))
    >>> load_values(Usage((1.0, 2.0), (4.0, 4.0)), idle, idle).tolist()
    [0.2, 0.4]
    """
    weights = weights or Weights()
    found: Floats = (
        weights.cpu * cpu.share() + weights.memory * memory.share() + weights.bandwidth * bandwidth.share()
    )
    return found

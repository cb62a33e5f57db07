"""The workload of a site as others are told of it (COSMOS, section 6.2.3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """The share of time that a site is busy, without its short peaks.

    Attributes
    ----------
    value
        ρ, after a low-pass filter: ρ' = α ρ + (1 - α) ρ_c.
    told
        What partners were told last.
    """

    value: float
    told: float

    def after(self, measured: float, *, alpha: float, kappa: float) -> Workload:
        """The workload after a window with this share; partners hear of it when it changed by `kappa` times.

        >>> Workload(0.5, 0.5).after(1.0, alpha=0.9, kappa=1.2)
        Workload(value=0.55, told=0.5)
        """
        value = alpha * self.value + (1 - alpha) * measured
        is_news = value >= kappa * self.told or value <= self.told / kappa
        return Workload(value, value if is_news else self.told)

"""What is known of a station as a stop of some rows.

Zhou, COSMOS, section 5.2.1: a remote meta-operator stands for the remote site. Rows that are sent there are
counted, and so is every row that comes of them, as a *virtual tuple*. Stations report both, once a batch:

* a new row meets what was there before it: `found` of `arrived`;
* a row that is kept is met by what comes later: `met` of `stored`, in one batch.

A row is kept for some batches (`lifetime`), so that it leads to `found ÷ arrived + lifetime × met ÷ stored`
rows in all. Counting the two apart keeps rows of yesterday's choices out of today's estimate.

Each number is there once, or once for every partition: rows with other keys may have other best orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.adapt.measures.site_report import StationReport
from anabranch.adapt.measures.statistics import Floats

LEAST_ROWS = 32.0
"""With fewer rows than that a station is unknown."""
PRIOR_ROWS = 16.0
"""Rows that the mean of a station is worth against what one partition shows."""
FADE = 0.25
"""What is left of the past after as many new rows as it had; with equal batches, half after each."""
SLOW_FADE = 0.98
"""What is left after a batch without any rows."""
SURPRISE = 0.5
"""Part by which a batch may differ from what was expected of it before the past is put in doubt."""
DOUBTED = 0.1
"""What is left of the past then."""


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """Fading counts of one station for rows of some references.

    Attributes
    ----------
    rows
        That arrive in a batch.
    """

    arrived: Floats
    found: Floats
    stored: Floats
    met: Floats
    rows: float = 0.0
    surprised: bool = False
    """Whether the last batch was far from what was expected of it."""

    @classmethod
    def new(cls, parts: int) -> Account:
        """An account of which nothing is known, in so many parts."""
        return cls(np.zeros(parts), np.zeros(parts), np.zeros(parts), np.zeros(parts))

    @property
    def is_known(self) -> bool:
        return float(self.arrived.sum()) >= LEAST_ROWS

    def after(self, seen: StationReport) -> Account:
        """The account after a batch.

        Examples
        --------
        >>> report = StationReport.of_totals(arrived=1000, found=200)
        >>> account = Account.new(1).after(report).after(report)
        >>> account.selectivity(lifetime=0.0).round(3).tolist()
        [0.2]
        """
        arrived, found, stored, met = (
            (values if len(self.arrived) > 1 else values.sum(keepdims=True)).astype(float)
            for values in (seen.arrived, seen.found, seen.stored, seen.met)
        )
        keep = SLOW_FADE * FADE ** (arrived / np.maximum(self.arrived, 1.0))
        kept = 1.0
        if surprised := self._surprises(arrived, float(found.sum())):
            keep, kept = np.minimum(keep, DOUBTED), DOUBTED
        # Rounded as the manifest has them, so that a session that starts from it decides the same.
        return Account(
            np.round(keep * self.arrived + arrived, 1),
            np.round(keep * self.found + found, 1),
            np.round((kept * self.stored + stored) / (1.0 + kept), 1),
            np.round((kept * self.met + met) / (1.0 + kept), 1),
            round((self.rows + float(arrived.sum())) / 2, 1),
            surprised,
        )

    def _surprises(self, arrived: Floats, found: float) -> bool:
        """Whether a batch is far from what was expected: then the world has changed."""
        if not self.is_known or arrived.sum() < LEAST_ROWS:
            return False
        expected = float((arrived * self._by_new()).sum())
        spread = 4.0 * np.sqrt(max(expected, found, 1.0))
        return bool(abs(found - expected) > max(SURPRISE * max(expected, found), spread))

    def _by_new(self) -> Floats:
        """Rows that a new row finds; where little is known, what the station shows as a whole."""
        mean = self.found.sum() / max(self.arrived.sum(), 1.0)
        found: Floats = (self.found + PRIOR_ROWS * mean) / (self.arrived + PRIOR_ROWS)
        return found

    def selectivity(self, *, lifetime: float) -> Floats:
        """Rows that come of a row which goes to this station first.

        Parameters
        ----------
        lifetime
            Batches for which a row is kept.
        """
        mean = self.met.sum() / max(self.stored.sum(), 1.0)
        prior = PRIOR_ROWS * max(lifetime, 1.0)
        total: Floats = self._by_new() + lifetime * (self.met + prior * mean) / (self.stored + prior)
        return total

    def to_json(self) -> dict[str, Any]:
        numbers = {"arrived": self.arrived, "found": self.found, "stored": self.stored, "met": self.met}
        told = {name: values.tolist() for name, values in numbers.items()}
        return told | {"rows": self.rows, "surprised": self.surprised}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Account:
        arrived, found, stored, met = (
            np.array(data[name], dtype=float) for name in ("arrived", "found", "stored", "met")
        )
        return cls(arrived, found, stored, met, data["rows"], data["surprised"])

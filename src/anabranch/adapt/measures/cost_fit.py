"""How many CPU seconds a row, a probe and a match cost, fitted to what the sites report.

A site reports one number of busy seconds for all its partitions. To say what *one* partition costs,
the seconds are explained by the counts: busy ≈ fixed + row·rows + probe·probes + match·matches, by
least squares over sites and batches, older ones fading. Where the counts do not tell the terms
apart (a uniform load), a small pull towards "rows alone cost" decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.adapt.measures.statistics import Floats, Ints, Statistics, sum_by_site

TERMS = 4
PULL = 0.002
"""Weight of the prior, as a share of the data's own weight."""
USUAL = 0.2
"""Relative distance from the model that noise explains."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds per site and batch, per row, probe and match, on a site of normal speed."""

    fixed_s: float = 0.0
    row_s: float = 1.0
    probe_s: float = 0.0
    match_s: float = 0.0

    def work_s(self, rows: Ints, probes: Ints, matches: Ints) -> Floats:
        """Seconds of work in these counts, without the fixed part.

        >>> CostModel(row_s=0.5, match_s=0.25).work_s(np.array([2]), np.array([0]), np.array([4])).tolist()
        [2.0]
        """
        work: Floats = self.row_s * rows + self.probe_s * probes + self.match_s * matches
        return work


class CostFit:
    """Fading least squares of busy seconds on counts.

    Parameters
    ----------
    decay
        Weight that past batches keep at each new one.
    """

    def __init__(self, *, decay: float = 0.9) -> None:
        self._decay = decay
        self._gram: Floats = np.zeros((TERMS, TERMS))
        self._moment: Floats = np.zeros(TERMS)
        self._model: CostModel | None = None
        """What was solved since the last batch."""

    def add(self, batch: Statistics, site_of: Ints) -> None:
        """Learn from a batch; a site without rows teaches nothing but noise."""
        rows = sum_by_site(batch.rows, site_of, batch.sites)
        seen = rows > 0
        if not seen.any():
            return
        counts = np.stack(
            [
                np.ones(batch.sites),
                rows,
                sum_by_site(batch.probes, site_of, batch.sites),
                sum_by_site(batch.matches, site_of, batch.sites),
            ],
            axis=1,
        )[seen]
        weighted = counts * self._trust(counts, batch.busy_s[seen])[:, None]
        self._gram = self._decay * self._gram + weighted.T @ counts
        self._moment = self._decay * self._moment + weighted.T @ batch.busy_s[seen]
        self._model = None

    def _trust(self, counts: Floats, busy_s: Floats) -> Floats:
        """Weight of each site: one that is far off what the others lead to expect counts little.

        Else a slow site, relieved of work and as busy as before, would teach that work costs nothing.
        """
        if self._gram[1, 1] <= 0:
            return np.ones(len(busy_s))
        model = self.model
        due = counts @ np.array([model.fixed_s, model.row_s, model.probe_s, model.match_s])
        off = np.log(np.maximum(busy_s, 1e-12) / np.maximum(due, 1e-12))
        off = np.abs(off - np.median(off))
        return np.asarray(np.minimum(1.0, (USUAL / np.maximum(off, USUAL)) ** 4), dtype=np.float64)

    @property
    def model(self) -> CostModel:
        """The model that fits best so far, no term negative."""
        if self._model is None:
            self._model = self._solved()
        return self._model

    def _solved(self) -> CostModel:
        rows_only = self._rows_only()
        if rows_only <= 0:
            return CostModel()
        scale = np.sqrt(np.diag(self._gram))
        known = scale > 0
        pull = PULL * np.diag(self._gram)
        prior = np.array([0.0, rows_only, 0.0, 0.0])
        while True:
            gram = self._gram[np.ix_(known, known)] + np.diag(pull[known])
            moment = (self._moment + pull * prior)[known]
            # In units of each term's own size: rows are thousands where sites are ones.
            units = scale[known]
            solved = np.linalg.solve(gram / np.outer(units, units), moment / units) / units
            if (solved >= 0).all():
                break
            known[np.flatnonzero(known)[solved < 0]] = False
        terms = np.zeros(TERMS)
        terms[known] = solved
        if not terms[1:].any():  # the counts explain nothing: a partition must cost something all the same
            return CostModel(row_s=rows_only)
        return CostModel(*(float(t) for t in terms))

    def _rows_only(self) -> float:
        return float(self._moment[1] / self._gram[1, 1]) if self._gram[1, 1] > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        return {"gram": self._gram.tolist(), "moment": self._moment.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, decay: float = 0.9) -> CostFit:
        fit = cls(decay=decay)
        fit._gram = np.array(data["gram"], dtype=np.float64)
        fit._moment = np.array(data["moment"], dtype=np.float64)
        return fit

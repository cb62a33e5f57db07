"""Statistics over rounds: the round that runs, and a fading memory of those before it.

Flux forgets everything at the end of a round. We keep, per partition, the work it brings and, per
site, how slow it is: neither depends on who owns what, so they stay true across moves. A fading
average makes them steady; when the load visibly shifts, the memory is dropped at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.measures.cost_fit import CostFit, CostModel
from anabranch.adapt.measures.observation import Outcome
from anabranch.adapt.measures.slowness import Slowness
from anabranch.adapt.measures.statistics import Flags, Floats, Ints, Statistics, sum_by_site


@dataclass(frozen=True, slots=True)
class Memory:
    """How the past counts.

    Attributes
    ----------
    decay
        Weight that past rounds keep at each new one; 0 forgets them, as Flux does.
    slowness_decay
        The same for the speed of the sites, which changes more rarely and is measured less well.
    shift
        Share of the work that must have changed place between partitions, beyond sampling noise, to
        call it a shift and drop the memory; 1 never does.
    fit_costs
        Learn what rows, probes and matches cost; else every row costs the same.
    count_pending
        Rows that had to be spooled count as work, so that a site that falls behind looks as loaded as it is.
    hiccup_s
        Seconds of a round that say nothing about how slow a site is.
    """

    decay: float = 0.6
    slowness_decay: float = 0.85
    shift: float = 0.15
    fit_costs: bool = True
    count_pending: bool = True
    hiccup_s: float = 0.0

    @classmethod
    def none(cls) -> Memory:
        """Flux's: each round stands alone."""
        return cls(decay=0.0, slowness_decay=0.0, shift=1.0, fit_costs=False, count_pending=False)


class RollingStatistics:
    """Collects batches into rounds and rounds into estimates."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.epoch = 0
        """Number of shifts of the load noticed so far."""
        self._fit = CostFit()
        self._round: Statistics | None = None
        self._round_work: Floats = np.zeros(0)
        self._round_nominal: Floats = np.zeros(0)
        self._pending: Ints | None = None
        self._span_s = 0.0
        self._overhead_s = 0.0
        self._rounds = 0.0
        self._work: Floats = np.zeros(0)
        self._slowness = Slowness(decay=memory.slowness_decay, hiccup_s=memory.hiccup_s)
        self._rows = 0.0
        self._batches = 0.0
        self._round_batches = 0
        self._spilled: Flags = np.zeros(0, np.bool_)
        """Sites with something on disk at the end of the last batch."""
        self._round_spilled: Flags = np.zeros(0, np.bool_)
        """The same at the end of any batch of the round, or when it began."""

    @property
    def model(self) -> CostModel:
        return self._fit.model if self.memory.fit_costs else CostModel()

    def add(self, batch: Statistics, site_of: Ints) -> None:
        """Count a batch that ran under this assignment."""
        if self.memory.fit_costs:
            self._fit.add(batch, site_of)
        model = self.model
        done = model.work_s(batch.rows, batch.probes, batch.matches)
        nominal = model.fixed_s + sum_by_site(done, site_of, batch.sites)
        work = self._with_spooled(done, batch)
        self._note_disks(batch, site_of)
        if self._round is None or self._round.sites != batch.sites:
            self._round, self._round_work, self._round_nominal = batch, work, nominal
            self._round_batches = 1
        else:
            self._round = self._round.then(batch)
            self._round_work = self._round_work + work
            self._round_nominal = self._round_nominal + nominal
            self._round_batches += 1

    def _note_disks(self, batch: Statistics, site_of: Ints) -> None:
        before = self._round_spilled
        self._spilled = sum_by_site(batch.on_disk, site_of, batch.sites) > 0
        self._round_spilled = self._spilled | before if len(before) == batch.sites else self._spilled

    def _with_spooled(self, done: Floats, batch: Statistics) -> Floats:
        """Work that arrived: what was done, and what was put off beyond what was put off before."""
        before, self._pending = self._pending, batch.pending_rows
        if not self.memory.count_pending or before is None or len(before) != batch.partitions:
            return done
        grown = batch.pending_rows - before
        if not grown.any():
            return done
        per_row = float(done.sum() / max(int(batch.rows.sum()), 1))
        own = np.where(batch.rows > 0, done / np.maximum(batch.rows, 1), per_row)
        arrived: Floats = np.maximum(done + own * grown, 0.0)
        return arrived

    def close_round(self) -> bool:
        """Fold the round into the memory. True when the load has shifted, so that the memory was dropped."""
        if self._round is None:
            return False
        shifted = self._has_shifted()
        if shifted:
            self.epoch += 1
        keep = 0.0 if shifted else self.memory.decay
        if len(self._work) != self._round.partitions:
            keep = 0.0
        if keep == 0.0:
            self._work = np.zeros(self._round.partitions)
        self._span_s = keep * self._span_s + self._round.length_s
        self._overhead_s = keep * self._overhead_s + self._round.overhead_s
        self._rounds = keep * self._rounds + 1
        self._batches = keep * self._batches + self._round_batches
        self._rows = keep * self._rows + float(self._round.rows.sum())
        self._work = keep * self._work + self._round_work
        # A site that was busy with its disk shows nothing of its speed (Flux, section 6.2).
        self._slowness.add(self._round.busy_s, np.where(self._round_spilled, 0.0, self._round_nominal))
        return shifted

    def open_round(self) -> None:
        """Start counting anew."""
        self._round = None
        self._round_spilled = self._spilled

    def _has_shifted(self) -> bool:
        assert self._round is not None
        now, before = self._round_work.sum(), self._work.sum()
        if self.memory.shift >= 1 or now <= 0 or before <= 0 or len(self._work) != len(self._round_work):
            return False
        rows = float(self._round.rows.sum())
        moved = 0.5 * np.abs(self._round_work / now - self._work / before).sum()
        # Mean distance of two samples of n and m rows over P equal partitions; smaller for unequal ones.
        chance = len(self._work) * (1 / max(rows, 1) + 1 / max(self._rows, 1)) / (2 * np.pi)
        return bool(moved > self.memory.shift + np.sqrt(chance))

    def outcome(self, site_of: Ints) -> Outcome:
        """How this round alone went; call after `close_round`."""
        assert self._round is not None
        done, arrived = float(self._round_nominal.sum()), float(self._round_work.sum())
        if done <= 0 or arrived <= 0:
            return Outcome(0.0, 0.0)
        needed = _ratio(self._round.busy_s, self._round_nominal) * self.shares(site_of)
        busiest = int(needed.argmax())
        seen = float(sum_by_site(self._round.rows, site_of, self._round.sites)[busiest])
        noise = float(np.hypot(self._slowness.noise(), 1 / np.sqrt(max(seen, 1.0))))
        return Outcome(float(needed[busiest]), self._round.length_s / done, noise)

    def _noise(self, site_of: Ints) -> float:
        """Relative standard error of a site's load, from how sites vary and from how few rows they see."""
        assert self._round is not None
        share = float(self.shares(site_of).max() / max(float(self.shares(site_of).sum()), 1e-12))
        timing = self._slowness.noise(wary=True) / np.sqrt(max(self._rounds, 1.0))
        return float(np.hypot(timing, 1 / np.sqrt(max(share * self._rows, 1.0))))

    def shares(self, site_of: Ints) -> Floats:
        """Work of each site in this round under an assignment, per second of work that arrived anywhere."""
        assert self._round is not None
        fixed = self.model.fixed_s * self._round_batches
        load = fixed + sum_by_site(self._round_work, site_of, self._round.sites)
        return np.asarray(load / max(float(self._round_work.sum()), 1e-12), dtype=np.float64)

    def drift(self, then: tuple[float, ...], site_of: Ints) -> float:
        """How much dearer the busiest site would be in this round than with shares of an earlier one.

        Parameters
        ----------
        then, site_of
            The shares of the sites in that round, and the assignment that they had.
        """
        assert self._round is not None
        if len(then) != self._round.sites:  # they are others by now
            return 1.0
        slowness = self._slowness.estimate()
        before, now = (float((slowness * shares).max()) for shares in (then, self.shares(site_of)))
        return now / before if before > 0 else 1.0

    def view(self, site_of: Ints, *, pinned: Flags, barred: Mapping[int, frozenset[int]]) -> RoundView:
        """What the policies get to see; call after `close_round`."""
        assert self._round is not None
        span = self._span_s if self._span_s > 0 else 1.0
        return RoundView(
            site_of=site_of,
            utilisation=self._round.utilisation,
            rows=self._round.rows,
            work_s=self._work / span,
            slowness=self._slowness.estimate(),
            fixed_s=self.model.fixed_s * self._batches / span,
            state_bytes=self._round.state_bytes,
            on_disk=self._round.on_disk,
            memory_bytes=self._round.memory_bytes,
            pinned=pinned,
            barred=barred,
            overhead_s=self._overhead_s / span,
            noise=self._noise(site_of),
        )

    def to_json(self) -> dict[str, Any]:
        """The memory; a round in progress is not part of it and starts anew after a restart."""
        return {
            "epoch": self.epoch,
            "fit": self._fit.to_json(),
            "span": self._span_s,
            "overhead": self._overhead_s,
            "rounds": self._rounds,
            "rows": self._rows,
            "batches": self._batches,
            "work": _short(self._work),
            "slowness": self._slowness.to_json(),
            "spilled": self._spilled.tolist(),
            "pending": None if self._pending is None or not self._pending.any() else self._pending.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], memory: Memory) -> RollingStatistics:
        rolling = cls(memory)
        rolling.epoch = int(data["epoch"])
        rolling._fit = CostFit.from_json(data["fit"])
        rolling._span_s = float(data["span"])
        rolling._overhead_s = float(data["overhead"])
        rolling._rounds = float(data["rounds"])
        rolling._rows = float(data["rows"])
        rolling._batches = float(data["batches"])
        rolling._work = np.array(data["work"], dtype=np.float64)
        rolling._slowness = Slowness.from_json(
            data["slowness"], decay=memory.slowness_decay, hiccup_s=memory.hiccup_s
        )
        rolling._spilled = rolling._round_spilled = np.array(data.get("spilled", []), dtype=np.bool_)
        rolling._pending = None if data["pending"] is None else np.array(data["pending"], dtype=np.int64)
        return rolling


def _ratio(busy_s: Floats, nominal_s: Floats) -> Floats:
    """Busy seconds per second of work; a site that did nothing counts as a usual one."""
    worked = (nominal_s > 0) & (busy_s > 0)
    if not worked.any():
        return np.ones(len(busy_s))
    slowness = np.full(len(busy_s), float(busy_s[worked].sum() / nominal_s[worked].sum()))
    slowness[worked] = busy_s[worked] / nominal_s[worked]
    return slowness


def _short(values: Floats) -> list[float]:
    """Six digits: estimates are no better, and they are written with every batch."""
    return [float(f"{v:.6g}") for v in values]

"""The one that decides: collects rounds, asks the policy, accepts or refuses, records, learns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from anabranch.adapt.balance.controller_settings import ControllerSettings
from anabranch.adapt.balance.damping import Damping
from anabranch.adapt.balance.policy import Policy, Thresholds
from anabranch.adapt.balance.proposal import Decision, Move, PolicyName, Verdict
from anabranch.adapt.balance.recent_moves import RecentMoves
from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.balance.screening import ScreeningContext, refusal
from anabranch.adapt.balance.self_tuning import Effect, Tuning, judge, relax, tune
from anabranch.adapt.balance.warm_up import WarmUp
from anabranch.adapt.balance.worth import LeftAlone
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.observation import Baseline, Observation, Outcome
from anabranch.adapt.measures.rolling import RollingStatistics
from anabranch.adapt.measures.statistics import Floats, Ints, Statistics
from anabranch.exchange.partition_map import PartitionMap

VERSION = 5
"""Of the JSON object in the manifest."""


class Phase(StrEnum):
    """The two phases of a round (Flux, section 5.3)."""

    COLLECTING = "collecting"
    MOVING = "moving"


@dataclass(frozen=True, slots=True)
class Step:
    """What a call of the controller brought.

    Attributes
    ----------
    partition_map
        The map from now on.
    orders
        Moves to carry out; empty when moves are instant, for then the map has them already.
    """

    partition_map: PartitionMap
    decisions: tuple[Decision, ...] = ()
    orders: tuple[Move, ...] = ()
    events: tuple[Event, ...] = ()


class Controller:
    """Decides at boundaries which partitions move.

    Call `step` at every boundary, in order; the state between two calls is `to_json()`, and goes into the
    manifest. Deterministic: same settings, same calls, same decisions.

    Examples
    --------
    >>> from anabranch.adapt.balance.hybrid_policy import HybridPolicy
    >>> controller = Controller(HybridPolicy.default())
    >>> rows = np.where(np.arange(256) < 128, 90, 10)
    >>> skewed = Statistics.of_batch([0.9, 0.1], rows)
    >>> step = controller.step(0, skewed, PartitionMap.even(2))
    >>> (sum(d.accepted for d in step.decisions) > 30, step.partition_map.sites)
    (True, 2)
    """

    def __init__(self, policy: Policy, settings: ControllerSettings | None = None) -> None:
        self._policy = policy
        self.settings = settings or ControllerSettings()
        self._rolling = RollingStatistics(self.settings.memory)
        self.tuning = Tuning.start(self.settings.limits)
        self.phase = Phase.COLLECTING
        self.round = 0
        self._length = self.settings.limits.minimum_round
        self._phase_since: float | None = None
        self._running: tuple[Move, ...] = ()
        self._departures = RecentMoves()
        self._observation: Observation | None = None
        self._baseline: Baseline | None = None
        self._warm_up = WarmUp()
        self._left_alone: LeftAlone | None = None
        """Why moves were not made, as it was last told."""

    def copy(self) -> Controller:
        """A controller that goes on from here; what it counts and decides does not change this one."""
        twin = copy(self)
        twin._rolling = deepcopy(self._rolling)  # the rest are values that are replaced
        return twin

    @property
    def due_at(self) -> float:
        """End of the collection phase; until then only finished moves are a reason to call `step`."""
        if self.phase is Phase.MOVING:
            return np.inf
        return -np.inf if self._phase_since is None else self._phase_since + self._length

    @property
    def running(self) -> tuple[Move, ...]:
        """Moves ordered and not finished."""
        return self._running

    def step(
        self,
        now: float,
        statistics: Statistics,
        partition_map: PartitionMap,
        *,
        finished: Collection[Move] = (),
    ) -> Step:
        """Count what happened since the last call; decide when the round is over.

        Parameters
        ----------
        now
            Time in the driver's unit: the number of the batch that ended, or simulated seconds.
        statistics
            Of the time since the last call, under `partition_map`.
        partition_map
            The map in force until now. Its number of sites may differ from the last call's.
        finished
            Ordered moves that have been carried out, or given up because a site went away.
        """
        if self._phase_since is None:
            self._phase_since = now - (1.0 if self.settings.instant else 0.0)
        if self.settings.warm_up:
            self._warm_up = self._warm_up.after(statistics)
            if self._warm_up.is_cold:
                self._phase_since = now
                return Step(partition_map)
        site_of = partition_map.as_array().astype(np.int64)
        self._rolling.add(statistics, site_of)
        events: list[Event] = []
        if finished:
            partition_map = self._finish(now, partition_map, finished, events)
        if self.phase is Phase.MOVING or now < self.due_at - 1e-9:
            return Step(partition_map, events=tuple(events))
        return self._decide(now, partition_map, events)

    def _finish(
        self, now: float, partition_map: PartitionMap, finished: Collection[Move], events: list[Event]
    ) -> PartitionMap:
        done = [m for m in self._running if m in finished]
        self._running = tuple(m for m in self._running if m not in finished)
        events.extend(Event(int(now), EventKind.MOVE_FINISHED, str(m), m.to_json()) for m in done)
        if not self._running and self.phase is Phase.MOVING:
            assert self._phase_since is not None
            self._begin_collecting(now, moved=True, move_phase=now - self._phase_since)
        return moved_map(partition_map, done)

    def _begin_collecting(self, now: float, *, moved: bool, move_phase: float) -> None:
        damping = Damping(self.tuning.minimum_round)
        self._length = damping.next_length(self._length, moved=moved, move_phase=move_phase)
        self.phase, self._phase_since = Phase.COLLECTING, now
        self._rolling.open_round()

    def _decide(self, now: float, partition_map: PartitionMap, events: list[Event]) -> Step:
        self.round += 1
        shifted = self._rolling.close_round()
        if shifted:
            events.append(Event(int(now), EventKind.LOAD_SHIFTED, "the load has moved to other partitions"))
        site_of = partition_map.as_array().astype(np.int64)
        outcome = self._rolling.outcome(site_of)
        self._observe(now, outcome, site_of, events)
        self._compare(outcome, site_of)
        view = self._view(site_of)
        decisions = self._screen(now, view, events, for_load=not self._pausing(now, events))
        accepted = tuple(d.proposal.move for d in decisions if d.accepted)
        events.extend(Event.of_decision(d) for d in decisions)
        if accepted:
            events.append(_rebalanced(now, view, accepted))
            self._record(decisions, accepted, view)
        elif self.settings.self_tuning:
            self.tuning = relax(self.tuning, self.settings.limits, shifted=shifted)
        if accepted and not self.settings.instant:
            self.phase, self._phase_since, self._running = Phase.MOVING, now, accepted
            return Step(partition_map, decisions, accepted, tuple(events))
        # An instant move's phase is the boundary itself: the batch that follows it.
        self._begin_collecting(now, moved=bool(accepted), move_phase=1.0 if accepted else 0.0)
        return Step(moved_map(partition_map, accepted), decisions, (), tuple(events))

    def _view(self, site_of: Ints) -> RoundView:
        pinned = np.zeros(len(site_of), np.bool_)
        pinned[[m.partition for m in self._running]] = True
        span = self.settings.undo_span
        self._departures = self._departures.without_older_than(self.round - span)
        barred = self._departures.barred(round=self.round, epoch=self._rolling.epoch, span=span)
        return self._rolling.view(site_of, pinned=pinned, barred=barred)

    def _pausing(self, now: float, events: list[Event]) -> bool:
        if self.tuning.pause_left == 1:
            events.append(Event(int(now), EventKind.RESUMED, "the pause is over: moves are tried again"))
        return self.tuning.paused

    def _compare(self, outcome: Outcome, site_of: Ints) -> None:
        """Note what a round without moves costs, to compare rounds after the next moves with."""
        if outcome.critical <= 0:
            return
        shares, epoch = tuple(self._rolling.shares(site_of).tolist()), self._rolling.epoch
        known = self._baseline
        self._baseline = (
            Baseline(outcome, shares, epoch) if known is None else known.with_round(outcome, shares, epoch)
        )

    def _screen(
        self, now: float, view: RoundView, events: list[Event], *, for_load: bool
    ) -> tuple[Decision, ...]:
        """Judge what the policy proposes; `for_load` is False while moves for load are paused."""
        proposals = self._policy.propose(view, Thresholds(self.tuning.imbalance, self.settings.utilisation))
        moves = [p.move for p in proposals if p.policy is PolicyName.LOAD]
        if not for_load or (moves and not self._are_worth_it(now, view, moves, events)):
            proposals = tuple(p for p in proposals if p.policy is PolicyName.MEMORY)
        decisions: list[Decision] = []
        taken: frozenset[int] = frozenset()
        for proposal in proposals:
            why = refusal(proposal, ScreeningContext(view, taken, self.settings.max_moves))
            verdict = Verdict.ACCEPTED if why is None else Verdict.REFUSED
            decisions.append(Decision(proposal, verdict, why or "", self.round, now))
            if why is None:
                taken |= {proposal.move.partition}
        return tuple(decisions)

    def _are_worth_it(
        self, now: float, view: RoundView, moves: Collection[Move], events: list[Event]
    ) -> bool:
        """Whether moves for load save enough; if they do not, that is told once."""
        objection = None if self.settings.worth is None else self.settings.worth.objection(view, moves)
        if objection is None:
            return True
        kind, why = objection
        if kind is not self._left_alone:
            events.append(Event(int(now), EventKind.LEFT_ALONE, why, {"reason": str(kind)}))
        self._left_alone = kind
        return False

    def _record(self, decisions: tuple[Decision, ...], accepted: tuple[Move, ...], view: RoundView) -> None:
        if self.settings.undo_span >= 0:
            self._departures = self._departures.with_moves(
                accepted, round=self.round, epoch=self._rolling.epoch
            )
        for_load = [d.proposal.move for d in decisions if d.accepted and d.proposal.policy is PolicyName.LOAD]
        self._left_alone = None
        before, self._baseline = self._baseline, None
        if not self.settings.self_tuning or not for_load or before is None:
            return
        expected = max(0.0, 1 - float(view.after(for_load).max() / view.load_of_sites().max()))
        if self._observation is None:
            self._observation = Observation(
                since_round=self.round,
                epoch=self._rolling.epoch,
                before=before.before,
                shares=before.shares,
                expected=0.0,
                moves=0,
                homes={},
            )
        self._observation = self._observation.with_moves(expected, for_load)

    def _observe(self, now: float, outcome: Outcome, site_of: Ints, events: list[Event]) -> None:
        """Compare what the last moves promised with what came; learn from it."""
        if self._observation is None:
            return
        watched = self._observation
        drift = self._rolling.drift(watched.shares, watched.unmoved(site_of))
        self._observation = watched = watched.with_round(outcome, drift)
        known = watched.epoch == self._rolling.epoch
        if known and not watched.due:
            return
        relief = watched.relief
        self._observation = None
        effect = judge(watched.expected, relief) if known else Effect.UNKNOWN
        events.append(_observed(now, watched, relief, effect))
        before, self.tuning = self.tuning, tune(self.tuning, effect, self.settings.limits)
        events.extend(_changes(now, before, self.tuning))

    def to_json(self) -> dict[str, Any]:
        """Everything the next call depends on, save the settings and a round in progress."""
        return {
            "version": VERSION,
            "round": self.round,
            "phase": str(self.phase),
            "phaseSince": self._phase_since,
            "length": self._length,
            "running": [m.to_json() for m in self._running],
            "recent_moves": self._departures.to_json(),
            "observation": None if self._observation is None else self._observation.to_json(),
            "baseline": None if self._baseline is None else self._baseline.to_json(),
            "leftAlone": self._left_alone,
            "tuning": self.tuning.to_json(),
            "rolling": self._rolling.to_json(),
        }

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], policy: Policy, settings: ControllerSettings | None = None
    ) -> Controller:
        """Go on where a manifest left off.

        An empty object, or one of another version, starts afresh: what it held were estimates, and they
        come back within a few rounds.
        """
        controller = cls(policy, settings)
        if not data or data.get("version") != VERSION:
            return controller
        controller.round = int(data["round"])
        controller.phase = Phase(data["phase"])
        controller._phase_since = data["phaseSince"]
        controller._length = float(data["length"])
        controller._running = tuple(Move.from_json(m) for m in data["running"])
        controller._departures = RecentMoves.from_json(data["recent_moves"])
        watched, baseline, left_alone = data["observation"], data["baseline"], data["leftAlone"]
        controller._observation = None if watched is None else Observation.from_json(watched)
        controller._baseline = None if baseline is None else Baseline.from_json(baseline)
        controller._left_alone = None if left_alone is None else LeftAlone(left_alone)
        controller.tuning = Tuning.from_json(data["tuning"])
        controller._rolling = RollingStatistics.from_json(data["rolling"], controller.settings.memory)
        return controller


def moved_map(partition_map: PartitionMap, moves: Collection[Move]) -> PartitionMap:
    """The map with these moves made; `replace` checks it."""
    if not moves:
        return partition_map
    site_of = list(partition_map.site_of_partition)
    for move in moves:
        site_of[move.partition] = move.target
    return replace(partition_map, site_of_partition=tuple(site_of))


def _rebalanced(now: float, view: RoundView, moves: tuple[Move, ...]) -> Event:
    """The moves of a round in one line."""
    before, after = (_over_mean(load) for load in (view.load_of_sites(), view.after(moves)))
    return Event(
        int(now),
        EventKind.REBALANCED,
        f"{len(moves)} partition{'' if len(moves) == 1 else 's'} moved, "
        f"busiest site {before:.2f}× → {after:.2f}× the mean",
        {"moves": len(moves), "before": round(before, 4), "expected": round(after, 4)},
    )


def _over_mean(load: Floats) -> float:
    mean = float(load.mean())
    return float(load.max()) / mean if mean > 0 else 1.0


def _observed(now: float, watched: Observation, relief: Outcome, effect: Effect) -> Event:
    return Event(
        int(now),
        EventKind.BENEFIT_OBSERVED,
        f"{watched.moves} moves since round {watched.since_round}: expected to save {watched.expected:.0%}, "
        + (f"saved {relief.critical:.0%}" if effect is not Effect.UNKNOWN else "but the load has shifted"),
        {
            "moves": watched.moves,
            "sinceRound": watched.since_round,
            "expected": round(watched.expected, 4),
            "observed": round(relief.critical, 4),
            "pace": round(relief.pace, 4),
            "effect": str(effect),
        },
    )


def _changes(now: float, before: Tuning, after: Tuning) -> list[Event]:
    data = {"imbalance": round(after.imbalance, 4), "minimumRound": after.minimum_round}
    if after.paused and not before.paused:
        return [
            Event(int(now), EventKind.PAUSED, f"moves do not pay: none for {after.pause_left} rounds", data)
        ]
    if (after.imbalance, after.minimum_round) == (before.imbalance, before.minimum_round):
        return []
    return [
        Event(
            int(now),
            EventKind.TUNED,
            f"imbalance threshold {before.imbalance:.2f} → {after.imbalance:.2f}, "
            f"shortest round {before.minimum_round:g} → {after.minimum_round:g}",
            data,
        )
    ]

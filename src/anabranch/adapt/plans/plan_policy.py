"""The plan policy: every site gets the join order that its own statistics ask for, but never by a whim.

A plan is changed when another is clearly cheaper, twice in a row, and the saving soon pays for the
change (claims C6, D1). Each change is a hypothesis: what the query took before and after is
compared, and a policy whose changes do not keep their promise goes back, pauses, and pauses for longer
each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from anabranch.adapt.balance.self_tuning import Effect, judge
from anabranch.adapt.measures.observation import Outcome
from anabranch.adapt.plans.plan_memory import PlanMemory, PlanPolicyState, Trial
from anabranch.adapt.plans.plan_outcome import PlanOutcome
from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.migration_cost import (
    MigrationCost,
    Preference,
    PurgeRule,
    Strategy,
    choose,
    moving_state_cost,
    parallel_track_cost,
)
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.cost.probe_counts import plan_block_probes
from anabranch.plan.cost.state_room import ANY_ROOM, StateRoom
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import canonical
from anabranch.plan.search.optimizer import RatedPlan, best_plan, best_probe, ranked
from anabranch.plan.tree import Plan, parse_plan

LEARN = 0.3
"""Weight of the latest evaluation in what a predicted second turns out to take."""
HARM = 0.1
"""Share by which a query must have become dearer to send it back to its old plan."""
DOUBT = 2.0
"""Standard errors by which a sampled selectivity may be off."""
FEWEST_REFERENCES = 3
"""Two references have one plan."""


@dataclass(frozen=True, slots=True)
class PlanPolicySettings:
    """When to change a plan.

    Attributes
    ----------
    preference
        Strategy to use, the cheaper by default; or `off`.
    threshold
        Least saving, as a share of what the plan costs now.
    consecutive
        Evaluations in a row that must see it.
    horizon_windows, unbounded_horizon_s
        Over how long the saving must pay for the migration: in windows, or where windows never end.
    margin
        How many times it must pay for it.
    rule
        How a parallel track ends.
    settle, trial
        Evaluations to wait after a change, and then to judge it by.
    first_pause, longest_pause
        Evaluations without changes after one that did not keep its promise.
    lasting, most_caution
        A plan that is left again before so many evaluations makes the policy more cautious: each time it
        asks for twice as many evaluations in a row, up to so many times.
    candidates
        Plans to name in a proposal.
    """

    preference: Preference = Preference.AUTO
    threshold: float = 0.1
    consecutive: int = 2
    horizon_windows: float = 10.0
    unbounded_horizon_s: float = 600.0
    margin: float = 1.5
    rule: PurgeRule = PurgeRule.EXACT
    settle: int = 1
    trial: int = 3
    first_pause: int = 8
    longest_pause: int = 256
    lasting: int = 16
    most_caution: int = 6
    candidates: int = 5


@dataclass(frozen=True, slots=True)
class PlanView:
    """One query at one site, as the policy gets to see it.

    Attributes
    ----------
    observed_s
        CPU seconds that the query took per second of event time since the last evaluation, if known.
    migrating
        A migration is ordered or running: nothing is decided, nothing is learned.
    room
        For intermediate rows: plans that are predicted to need more are not taken.
    """

    site: int
    query: str
    graph: JoinGraph
    plan: Plan
    statistics: JoinStatistics
    lateness_s: float = 0.0
    observed_s: float | None = None
    migrating: bool = False
    room: StateRoom = ANY_ROOM


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """A change of plan that the policy suggests.

    Attributes
    ----------
    predicted_now, predicted_new
        CPU seconds per second of event time, by the cost model; of a way back, as observed.
    candidates
        The cheapest plans by the model, for whoever asks why.
    """

    site: int
    query: str
    old: Plan
    new: Plan
    migration_cost: MigrationCost
    reason: str
    predicted_now: float
    predicted_new: float
    candidates: tuple[RatedPlan, ...] = ()

    @property
    def strategy(self) -> Strategy:
        return self.migration_cost.strategy

    def to_json(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "query": self.query,
            "old": str(self.old),
            "new": str(self.new),
            "strategy": str(self.strategy),
            "reason": self.reason,
            "predictedNow": self.predicted_now,
            "predictedNew": self.predicted_new,
            "migrationSeconds": self.migration_cost.cost_s,
            "migrationDuration": self.migration_cost.duration_s,
            "candidates": {str(rated.plan): rated.cost.seconds for rated in self.candidates},
        }


class PlanRound(NamedTuple):
    """What an evaluation of all queries at all sites gave; earlier changes may have been judged in it."""

    state: PlanPolicyState
    proposals: tuple[PlanProposal, ...] = ()
    outcomes: tuple[PlanOutcome, ...] = ()


def propose_plans(
    views: Sequence[PlanView],
    state: PlanPolicyState,
    *,
    settings: PlanPolicySettings,
    costs: UnitCosts,
) -> PlanRound:
    """Evaluate every query at every site once.

    The policy sees from the next views whether a proposal was followed: the plan is another then. What has
    no view any more is forgotten, such as a site that is gone.
    """
    viewed = {(view.site, view.query) for view in views}
    memories = {key: memory for key, memory in state.memories.items() if key in viewed}
    proposals, outcomes = [], []
    if settings.preference is Preference.OFF:
        return PlanRound(PlanPolicyState(memories))
    for view in views:
        if len(view.graph.aliases) < FEWEST_REFERENCES or view.migrating:
            continue
        evaluation = _Evaluation(view, settings, costs)
        memory, proposal = evaluation.step(state.of(view.site, view.query))
        memories[view.site, view.query] = memory
        if proposal is not None:
            proposals.append(proposal)
        if evaluation.outcome is not None:
            outcomes.append(evaluation.outcome)
    return PlanRound(PlanPolicyState(memories), tuple(proposals), tuple(outcomes))


class _Evaluation:
    """One query at one site, now."""

    def __init__(self, view: PlanView, settings: PlanPolicySettings, costs: UnitCosts) -> None:
        self._view = view
        self._settings = settings
        self._costs = costs
        self._estimates = Estimates(view.graph, view.statistics)
        self._plan = canonical(view.plan, view.graph)
        self._now = self._seconds(self._plan)
        self.outcome: PlanOutcome | None = None
        """What came of the last change, once there is enough to judge it by."""

    def step(self, memory: PlanMemory) -> tuple[PlanMemory, PlanProposal | None]:
        memory = self._date(memory)
        if self._view.observed_s is not None:
            memory = replace(memory, observed_s=self._view.observed_s)
        trial = memory.trial
        if trial is not None and trial.new != str(self._plan):  # the proposal was not followed
            memory, trial = replace(memory, trial=None), None
        if trial is not None and self._view.observed_s is not None:
            return self._watch(memory, trial, self._view.observed_s)
        memory = self._learn(memory)
        if memory.pause_left:
            return replace(memory, pause_left=memory.pause_left - 1, wanted=None, streak=0), None
        return self._look(memory)

    def _date(self, memory: PlanMemory) -> PlanMemory:
        """How long the plan has been running; one that was left early is a reason for caution."""
        plan = str(self._plan)
        if memory.plan in (None, plan):
            return replace(memory, plan=plan, age=None if memory.age is None else memory.age + 1)
        if memory.age is not None and memory.age < self._settings.lasting:
            caution = min(memory.caution + 1, self._settings.most_caution)
        else:
            caution = max(memory.caution - 1, 0)
        return replace(memory, plan=plan, age=0, caution=caution)

    def _learn(self, memory: PlanMemory) -> PlanMemory:
        """What a predicted second takes on the plan that runs."""
        whole = self._whole(self._plan)
        if self._view.observed_s is None or whole <= 0:
            return memory
        latest = self._view.observed_s / whole
        factor = latest if memory.factor is None else (1 - LEARN) * memory.factor + LEARN * latest
        return replace(memory, factor=factor)

    def _look(self, memory: PlanMemory) -> tuple[PlanMemory, PlanProposal | None]:
        """Look for a better plan."""
        best = self._best()
        if not self._saves(best.plan):
            return replace(memory, wanted=None, streak=0), None
        wanted = memory.wanted
        holds = wanted == str(best.plan) or (wanted is not None and self._saves(parse_plan(wanted)))
        memory = replace(memory, wanted=str(best.plan), streak=memory.streak + 1 if holds else 1)
        if memory.streak < self._settings.consecutive << memory.caution:
            return memory, None
        proposal = self._propose(best)
        if proposal is None:
            return memory, None
        trial = None if memory.factor is None else Trial(str(self._plan), str(best.plan), memory.factor)
        return replace(memory, wanted=None, streak=0, trial=trial), proposal

    def _best(self) -> RatedPlan:
        """The cheapest plan that has room for its intermediate rows; one without any always has."""
        known = self._estimates, self._costs
        probe, tree = best_probe(*known), best_plan(*known)
        if not self._has_room(tree.plan):
            others = ranked(*known, limit=self._settings.candidates)
            tree = next((rated for rated in others if self._has_room(rated.plan)), probe)
        return min(tree, probe, key=lambda rated: rated.cost.seconds)

    def _has_room(self, plan: Plan) -> bool:
        return self._view.room.has_room(plan, self._view.graph, self._view.statistics)

    def _propose(self, best: RatedPlan) -> PlanProposal | None:
        """A proposal, if the saving pays for the migration."""
        migration = self._migration_to(best.plan)
        saving = self._now - best.cost.seconds
        horizon = self._horizon_s()
        if migration is None or saving * horizon <= self._settings.margin * migration.cost_s:
            return None
        reason = (
            f"{best.plan} is predicted to take {best.cost.seconds:.3g} s per second instead of "
            f"{self._now:.3g} ({saving / self._now:.0%} less): {saving * horizon:.3g} s saved over "
            f"{horizon:.3g} s, for a migration of {migration.cost_s:.3g} s"
        )
        known = self._estimates, self._costs
        names = (*ranked(*known, limit=self._settings.candidates), best_probe(*known))
        return self._proposal(
            best.plan, migration, reason, now=self._now, then=best.cost.seconds, among=names
        )

    def _watch(
        self, memory: PlanMemory, trial: Trial, observed_s: float
    ) -> tuple[PlanMemory, PlanProposal | None]:
        """Collect what came of a change, and judge it when there is enough."""
        trial = replace(trial, seen=trial.seen + 1)
        if trial.seen > self._settings.settle:
            trial = replace(
                trial,
                observed=trial.observed + observed_s,
                promised_old=trial.promised_old + self._whole(parse_plan(trial.old)),
                promised_new=trial.promised_new + self._whole(self._plan),
            )
        if trial.seen < self._settings.settle + self._settings.trial:
            return replace(memory, trial=trial), None
        effect, dearer = _verdict(trial)
        self.outcome = PlanOutcome.of_trial(
            self._view.site, self._view.query, trial, evaluations=self._settings.trial, effect=effect
        )
        goes_back = effect is Effect.HARMFUL
        factor = trial.factor if goes_back else trial.observed / max(trial.promised_new, 1e-12)
        memory = replace(memory, trial=None, factor=factor)
        pause = memory.next_pause or self._settings.first_pause
        if effect is Effect.USEFUL:
            return replace(memory, next_pause=max(self._settings.first_pause, pause // 2)), None
        memory = replace(memory, pause_left=pause, next_pause=min(self._settings.longest_pause, 2 * pause))
        return memory, self._way_back(trial, dearer) if goes_back else None

    def _way_back(self, trial: Trial, dearer: float) -> PlanProposal | None:
        """To the plan before, because the change did harm, whatever the model says."""
        back = parse_plan(trial.old)
        migration = self._migration_to(back)
        if migration is None or not self._has_room(back):
            return None
        observed = trial.observed / self._settings.trial
        reason = f"the change to {trial.new} made the query {dearer:.0%} dearer than {trial.old} would be"
        return self._proposal(back, migration, reason, now=observed, then=observed / (1 + dearer), among=())

    def _proposal(
        self,
        new: Plan,
        migration: MigrationCost,
        reason: str,
        *,
        now: float,
        then: float,
        among: tuple[RatedPlan, ...],
    ) -> PlanProposal:
        view = self._view
        return PlanProposal(view.site, view.query, view.plan, new, migration, reason, now, then, among)

    def _migration_to(self, new: Plan) -> MigrationCost | None:
        graph, statistics = self._view.graph, self._view.statistics
        moving = moving_state_cost(self._plan, new, graph=graph, statistics=statistics, costs=self._costs)
        parallel = parallel_track_cost(
            self._plan,
            new,
            graph=graph,
            statistics=statistics,
            costs=self._costs,
            lateness_s=self._view.lateness_s,
            rule=self._settings.rule,
        )
        return choose(moving, parallel, self._settings.preference)

    def _horizon_s(self) -> float:
        window = self._view.statistics.longest_window_s
        if math.isinf(window):
            return self._settings.unbounded_horizon_s
        return self._settings.horizon_windows * window

    def _saves(self, plan: Plan) -> bool:
        """Whether a plan is clearly cheaper, even if a sample has erred in one of the selectivities."""
        if self._now <= 0 or (self._now - self._seconds(plan)) / self._now < self._settings.threshold:
            return False
        known = self._view.statistics
        return all(
            self._is_cheaper(plan, known.doubted(pair, errors))
            for pair in known.doubts
            for errors in (-DOUBT, DOUBT)
        )

    def _is_cheaper(self, plan: Plan, known: JoinStatistics) -> bool:
        estimates = Estimates(self._view.graph, known)
        new, old = (plan_cost(p, estimates, self._costs).seconds for p in (plan, self._plan))
        return new < old

    def _whole(self, plan: Plan) -> float:
        """All that a plan takes, as it is observed: probes of blocks too, which any plan makes."""
        batch_s = self._view.statistics.batch_s
        block_probes = plan_block_probes(plan, self._estimates) / batch_s if batch_s > 0 else 0.0
        return self._seconds(plan) + self._costs.block_probe_s * block_probes

    def _seconds(self, plan: Plan) -> float:
        return plan_cost(plan, self._estimates, self._costs).seconds


def _verdict(trial: Trial) -> tuple[Effect, float]:
    """What the change was, and by which share it made the query dearer than the old plan would be now.

    The old plan does not run any more; the model says how its cost moved with the load meanwhile. A load
    that has moved so that the new plan promises nothing any more makes the change a useless one.
    """
    due = max(trial.factor * trial.promised_old, 1e-12)
    promised = 1 - trial.promised_new / max(trial.promised_old, 1e-12)
    relief = 1 - trial.observed / due
    return judge(promised, Outcome(relief, relief), harm=HARM), -relief

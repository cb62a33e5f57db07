"""What the decisions at boundaries remember; the manifest has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.adapt.balance.controller import Controller
from anabranch.adapt.balance.controller_settings import ControllerSettings
from anabranch.adapt.balance.hybrid_policy import HybridPolicy
from anabranch.adapt.eddy.eddy_state import EddyState
from anabranch.adapt.eddy.layout_choice import LayoutVotes
from anabranch.adapt.eddy.tree_choice import TreeVotes
from anabranch.adapt.events import Event
from anabranch.adapt.measures.rolling import Memory
from anabranch.adapt.memory.memory_state import MemoryState
from anabranch.adapt.placement.homes import Homes
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.plans.plan_state import PlanState
from anabranch.adapt.routing.hot_keys import HotKeys
from anabranch.adapt.routing.routing_state import RoutingState
from anabranch.adapt.sharing.group_worth import GroupVotes

HICCUP_S = 0.01
"""What a pause of the machine adds to the time of a site, in a batch that takes some milliseconds."""
KEPT_EVENTS = 64
"""Events that the manifest keeps, so that a finished run can still say why."""


def _controller(remembered: Mapping[str, Any]) -> Controller:
    settings = ControllerSettings(memory=Memory(hiccup_s=HICCUP_S), warm_up=True)
    return Controller.from_json(remembered, HybridPolicy.default(), settings)


@dataclass(frozen=True, slots=True)
class BoundaryState:
    """A value: a decision gives another one, which is adopted when its manifest is published.

    Attributes
    ----------
    controller
        Of the load. It is never asked to step: a copy of it is.
    events
        The newest ones, as JSON.
    """

    controller: Controller = field(default_factory=lambda: _controller({}))
    memory: MemoryState = field(default_factory=MemoryState)
    plans: PlanState = field(default_factory=PlanState)
    eddy: EddyState = field(default_factory=EddyState)
    routing: RoutingState = field(default_factory=RoutingState)
    hot: HotKeys = field(default_factory=HotKeys)
    layouts: LayoutVotes = field(default_factory=LayoutVotes)
    trees: TreeVotes = field(default_factory=TreeVotes)
    events: tuple[Mapping[str, Any], ...] = ()
    homes: Homes = field(default_factory=Homes)
    groups: GroupVotes = field(default_factory=GroupVotes)
    """Neither is in the manifest: they would grow with queries, and are soon measured again."""

    def with_events(self, events: Iterable[Event]) -> BoundaryState:
        """The state with what was decided, for whoever asks later."""
        kept = (*self.events, *(event.to_json() for event in events))
        return replace(self, events=kept[-KEPT_EVENTS:])

    def to_json(self) -> dict[str, Any]:
        """What the manifest must remember."""
        return {
            "controller": self.controller.to_json(),
            **self.memory.to_json(),
            "events": list(self.events),
            "plans": self.plans.to_json(),
            "eddy": self.eddy.to_json(),
            "routing": self.routing.to_json(),
            "hot": self.hot.to_json(),
            "layouts": self.layouts.to_json(),
            **({"trees": turning} if (turning := self.trees.to_json()) else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], joins: Joins) -> BoundaryState:
        """Go on where a manifest left off; an empty object is a new checkpoint."""
        return cls(
            _controller(data.get("controller", {})),
            MemoryState.from_json(data),
            PlanState.from_json(data.get("plans", {}), joins),
            EddyState.from_json(data.get("eddy", {})),
            RoutingState.from_json(data.get("routing", {}), joins),
            HotKeys.from_json(data.get("hot", {}), joins),
            LayoutVotes.from_json(data.get("layouts", {})),
            TreeVotes.from_json(data.get("trees", {})),
            tuple(data.get("events", ())),
        )

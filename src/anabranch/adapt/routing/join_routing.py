"""What is told of joins whose rows are spread: where they go, how often they are copied, what was predicted.

All of it is about the step that has ended and the tables under which it ran. Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.routing.coordinated_state import CoordinatedState
from anabranch.adapt.routing.hot_keys import HotKeys
from anabranch.adapt.routing.overhead import StreamRate, copies_in_turns
from anabranch.adapt.routing.reference_clocks import clocks_of
from anabranch.adapt.routing.routing_state import AlignedState, RoutingState
from anabranch.exchange.aligned_router import FAR
from anabranch.plan.inputs import RoutedQuery


@dataclass(frozen=True, slots=True)
class JoinRouting:
    """A join that is spread over several partitions.

    Attributes
    ----------
    router
        `aligned`, `coordinated`, or `split` where keys are hot.
    before
        The router that still finds results of earlier rows, while a join changes between two.
    master, segment_s
        With aligned routing: the stream by whose segments rows go, and how long these are.
    places
        Partitions that take turns, that paths lead through, or that share the hot keys.
    cover
        With coordinated routing: places that get the rows of a unit, on average.
    hot_keys
        How many there are.
    replication
        Copies of a row that were stored or met somewhere, the first among them; None if no row came.
    predicted, measured
        Rows that travel beside the first copies, in a second of event time: what equations 2 and 4 say of
        the rows that came, and how many did; None if no row came.
    """

    query: str
    router: str
    places: int
    before: str | None = None
    master: str | None = None
    segment_s: float | None = None
    cover: float | None = None
    hot_keys: int = 0
    replication: float | None = None
    predicted: float | None = None
    measured: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "router": self.router,
            "before": self.before,
            "master": self.master,
            "segmentSeconds": self.segment_s,
            "places": self.places,
            "cover": _rounded(self.cover),
            "hotKeys": self.hot_keys,
            "replication": _rounded(self.replication),
            "predictedRowsPerSecond": _rounded(self.predicted),
            "measuredRowsPerSecond": _rounded(self.measured),
        }

    def __str__(self) -> str:
        """In words, as `explain` tells it."""
        told = f"{self.router} over {self.places} places"
        if self.master is not None:
            told += f", master {self.master}, segments of {self.segment_s:g} s"
        if self.cover is not None:
            told += f", a unit at {self.cover:.1f} of them"
        if self.hot_keys:
            told += f", {self.hot_keys} hot key{'s' if self.hot_keys > 1 else ''}"
        if self.before is not None:
            told += f"; earlier rows are still {self.before}"
        if self.replication is not None:
            told += f"; a row is at {self.replication:.2f} of them"
        if self.measured is not None and self.predicted is not None:
            told += f"; rows per second beside the first copies: {self.measured:,.0f}"
            told += f", predicted {self.predicted:,.0f}"
        return told

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> JoinRouting:
        return cls(
            data["query"],
            data["router"],
            data["places"],
            before=data["before"],
            master=data["master"],
            segment_s=data["segmentSeconds"],
            cover=data["cover"],
            hot_keys=data["hotKeys"],
            replication=data["replication"],
            predicted=data["predictedRowsPerSecond"],
            measured=data["measuredRowsPerSecond"],
        )


def join_routing(routing: RoutingState, hot: HotKeys, observed: Observed) -> tuple[JoinRouting, ...]:
    """Of every join whose rows are spread.

    Parameters
    ----------
    routing, hot
        Those under which the step ran.
    """
    found = list[JoinRouting]()
    for name in {**routing.aligned, **routing.coordinated}:
        step = _Step(observed.joins.queries[name], observed)
        found += step.diffused(routing.aligned.get(name), routing.coordinated.get(name))
    for routed in observed.joins.queries.values() if hot.keys else ():
        found += _Step(routed, observed).split(hot)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step did with the rows of one join."""

    routed: RoutedQuery
    observed: Observed

    def diffused(
        self, aligned: AlignedState | None, coordinated: CoordinatedState | None
    ) -> Iterator[JoinRouting]:
        """A join by segments or along paths; while it changes, the router that it changes to."""
        before = None
        if coordinated is not None and (aligned is None or aligned.table.current.end < FAR):
            if aligned is not None:
                before = "aligned"
            paths = [p for its in coordinated.routes(self.observed.batch).paths.values() for p in its]
            cover = sum(len(path.places) for path in paths) / max(1, len(paths))
            yield self._told(
                "coordinated", len(coordinated.lanes), self._along(coordinated), before=before, cover=cover
            )
        elif aligned is not None:
            if coordinated is not None:
                before = "coordinated"
            reign = aligned.table.current
            run = reign.segments.last
            if (places := len(set(run.cycle))) > 1:
                yield self._told(
                    "aligned",
                    places,
                    self._by_segments(aligned),
                    before=before,
                    master=reign.master,
                    segment_s=run.length / 1e6,
                )

    def split(self, hot: HotKeys) -> Iterator[JoinRouting]:
        """A join that has hot keys: rows of all inputs but the largest go to every lane."""
        inputs = self.observed.joins.layout.inputs
        states = {inputs[number].state for number in self.routed.inputs}
        if not self.routed.is_hashed or not (keys := hot.of(states)):
            return
        predicted = 0.0
        for key in keys:
            for state in (states & set(key.states)) - {key.largest}:
                rows = dict(self.observed.heavy.get(state, ())).get(key.address, 0)
                predicted += rows * (len(key.lanes) - 1)
        yield self._told("split", len(keys[0].lanes), predicted, hot_keys=len(keys))

    def _told(self, router: str, places: int, predicted: float, **more: Any) -> JoinRouting:
        """With what was measured; `predicted` are rows of the whole step."""
        name, observed = self.routed.query.name, self.observed
        came = [observed.arrived.get(number, (0, 0)) for number in dict.fromkeys(self.routed.inputs)]
        rows, copies = (sum(counts) for counts in zip(*came, strict=True))
        if not rows or observed.elapsed_s <= 0:
            return JoinRouting(name, router, places, **more)
        sent = sum(site.diffusion[name].sent for site in observed.sites if name in site.diffusion)
        return JoinRouting(
            name,
            router,
            places,
            replication=1 + copies / rows,
            predicted=predicted / observed.elapsed_s,
            measured=(copies + sent) / observed.elapsed_s,
            **more,
        )

    def _by_segments(self, aligned: AlignedState) -> float:
        """Equation 2, for the rows that came."""
        reign, clocks = aligned.table.current, clocks_of(self.routed, self.observed)
        run = reign.segments.last
        streams = {
            ref.alias: StreamRate(clocks[ref.alias].rows, ref.window_us / 1e6)
            for ref in self.routed.query.refs
        }
        return copies_in_turns(streams, reign.master, run.length / 1e6, run.cycle)

    def _along(self, coordinated: CoordinatedState) -> float:
        """Equation 4, for the rows that came and the covers of their paths."""
        clocks = clocks_of(self.routed, self.observed)
        paths = coordinated.routes(self.observed.batch).paths
        return sum(
            clocks[alias].rows * sum(path.overhead for path in its) / max(1, len(its))
            for alias, its in paths.items()
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

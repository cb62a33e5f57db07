"""Progress: what a committed step of a run did, with the keys that PySpark users know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.routing.join_routing import JoinRouting


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Rows of a stream since the checkpoint began.

    Attributes
    ----------
    watermark
        ISO 8601, UTC; None before the first row.
    late
        Rows below the watermark; `refused` are those of them that a query with state did not get.
    rejected
        Malformed rows.
    lag
        Messages that are not read yet, by topic and partition, of a stream that comes from Kafka.
    """

    watermark: str | None
    accepted: int
    late: int
    refused: int
    rejected: int
    lag: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "watermark": self.watermark,
            "accepted": self.accepted,
            "late": self.late,
            "refused": self.refused,
            "rejected": self.rejected,
        }
        return told | (
            {"lag": {topic: dict(behind) for topic, behind in self.lag.items()}} if self.lag else {}
        )


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """What a query emitted in this step, and how many results wait for later rows."""

    status: str
    output_rows: int
    rows_waiting: int
    failure: str | None = None
    cpu_ms: float = 0.0
    """Its own, or its share of its group's."""
    rows_undelivered: int = 0
    """Results that its sink has not taken yet; those of all queries that share the sink."""
    sink_failure: str | None = None
    """Why it has not."""

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "status": self.status,
            "numOutputRows": self.output_rows,
            "numRowsWaiting": self.rows_waiting,
            "cpuMs": self.cpu_ms,
        }
        told |= {"failure": self.failure} if self.failure else {}
        if self.sink_failure is not None:
            told |= {"numRowsUndelivered": self.rows_undelivered, "sinkFailure": self.sink_failure}
        return told


@dataclass(frozen=True, slots=True)
class StateProgress:
    """The state after the step: rows, those put off to a later batch, bytes; `states` by name."""

    rows: int
    rows_put_off: int
    bytes: int
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "numRowsTotal": self.rows,
            "numRowsPutOff": self.rows_put_off,
            "memoryUsedBytes": self.bytes,
            "states": {name: dict(state) for name, state in self.states.items()},
        }


@dataclass(frozen=True, slots=True)
class SiteProgress:
    """What a site did. `busy_ms` is CPU time; `partitions` are (partition, rows, pairs)."""

    site: int
    busy_ms: float
    rows: int
    pairs: int
    results: int
    state_bytes: int
    partitions: tuple[tuple[int, int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "busyMs": self.busy_ms,
            "rows": self.rows,
            "pairs": self.pairs,
            "results": self.results,
            "stateBytes": self.state_bytes,
            "partitions": [list(p) for p in self.partitions],
        }


@dataclass(frozen=True, slots=True)
class EddyProgress:
    """Where rows of some references had a choice of stations, and what decides it for the next batch.

    Attributes
    ----------
    tickets
        By station, what it holds for each row.
    selectivities
        By station, rows that come of a row; None where too little is known.
    shares
        By station, part of the rows that took it first, in the last batches.
    drawn
        By station, part of the rows that it gets by lottery, so that it stays known.
    decided_by
        `lottery`, `back-pressure`, `fixed order` or `nothing is known`.
    """

    query: str
    references: tuple[str, ...]
    stations: tuple[str, ...]
    tickets: tuple[float, ...]
    selectivities: tuple[float | None, ...]
    shares: tuple[float, ...]
    drawn: tuple[float, ...]
    decided_by: str

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> EddyProgress:
        """From what a decision tells."""
        return cls(
            told["query"],
            tuple(told["references"]),
            tuple(told["stations"]),
            tickets=tuple(told["tickets"]),
            selectivities=tuple(told["selectivities"]),
            shares=tuple(told["shares"]),
            drawn=tuple(told["drawn"]),
            decided_by=told["decidedBy"],
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "references": list(self.references),
            "stations": list(self.stations),
            "tickets": list(self.tickets),
            "selectivities": list(self.selectivities),
            "shares": list(self.shares),
            "drawn": list(self.drawn),
            "decidedBy": self.decided_by,
        }


@dataclass(frozen=True, slots=True)
class OrderingProgress:
    """How a join runs that can run on one site and at stations, and what each way would take.

    Attributes
    ----------
    runs, cheapest
        `one site`, `fixed order` or `eddy`.
    for_steps
        For how many steps in a row another way has been cheaper.
    costs_ms
        By way of which enough is known.
    """

    query: str
    runs: str
    cheapest: str
    for_steps: int
    costs_ms: Mapping[str, float]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> OrderingProgress:
        """From what a decision tells."""
        return cls(told["query"], told["runs"], told["cheapest"], told["forSteps"], told["costsMs"])

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "runs": self.runs,
            "cheapest": self.cheapest,
            "forSteps": self.for_steps,
            "costsMs": dict(self.costs_ms),
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Progress(Mapping[str, Any]):
    """A committed step of a run: a micro-batch (`step` 0), or a further step of it without new rows.

    Like PySpark's `StreamingQueryProgress` it is also a mapping, with the keys of its JSON form.

    Attributes
    ----------
    timestamp
        When it was committed; ISO 8601, UTC.
    duration_ms
        By phase: `plan`, `execute`, `commit`, `publish`, and `triggerExecution` for all of them.
    critical_path_ms
        What the busiest site took.
    queries
        By name; of more than a hundred queries, those with results, rows that wait, or a failure; of more
        than 10,000 with results, those with the most.
    output_rows
        Results of all queries together.
    slot_ms
        Phases of the slot that took longest.
    eddies
        Where rows choose among stations.
    routing
        Joins whose rows were spread: routers, copies, what was predicted.
    orderings
        How joins run that can run on one site and at stations.
    at_home
        Queries that run at one site alone from the next step on.
    largest_ratio
        PR_max: the time until a query's site is done, as a multiple of its own CPU time, the largest of all.
    replayed
        It was committed before a restart; only its results were published again.

    Examples
    --------
    >>> state = StateProgress(rows=5, rows_put_off=0, bytes=320)
    >>> progress = Progress(3, 0, "2026-01-01T00:00:00.000+00:00", input_rows=10, state=state)
    >>> progress
    <Progress of batch 3: 10 rows in 0 ms (0 rows/s), 0 results, state 5 rows>
    >>> progress.batch, progress["batchId"], progress["state"]["numRowsTotal"]
    (3, 3, 5)
    """

    batch: int
    step: int
    timestamp: str
    input_rows: int
    state: StateProgress
    rows_per_second: float = 0.0
    duration_ms: Mapping[str, float] = field(default_factory=dict)
    critical_path_ms: float = 0.0
    slot_ms: Mapping[str, float] = field(default_factory=dict)
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    queries: Mapping[str, QueryProgress] = field(default_factory=dict)
    sites: tuple[SiteProgress, ...] = ()
    output_rows: int = 0
    replayed: bool = False
    eddies: tuple[EddyProgress, ...] = ()
    routing: tuple[JoinRouting, ...] = ()
    orderings: tuple[OrderingProgress, ...] = ()
    at_home: int = 0
    largest_ratio: float = 0.0

    @property
    def total_ms(self) -> float:
        """What the step took from its plan to its results in the sinks."""
        return self.duration_ms.get("triggerExecution", 0.0)

    def __repr__(self) -> str:
        return (
            f"<Progress of batch {self.batch}: {self.input_rows:,} rows in {self.total_ms:,.0f} ms "
            f"({self.rows_per_second:,.0f} rows/s), {self.output_rows:,} results, "
            f"state {self.state.rows:,} rows>"
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "batchId": self.batch,
            "step": self.step,
            "timestamp": self.timestamp,
            "numInputRows": self.input_rows,
            "processedRowsPerSecond": self.rows_per_second,
            "durationMs": dict(self.duration_ms),
            "criticalPathMs": self.critical_path_ms,
            "slotMs": dict(self.slot_ms),
            "streams": {name: stream.to_json() for name, stream in self.streams.items()},
            "queries": {name: query.to_json() for name, query in self.queries.items()},
            "state": self.state.to_json(),
            "sites": [site.to_json() for site in self.sites],
            "replayed": self.replayed,
            "eddies": [eddy.to_json() for eddy in self.eddies],
            "routing": [join.to_json() for join in self.routing],
            "orderings": [ordering.to_json() for ordering in self.orderings],
            "placement": {"numQueriesAtHome": self.at_home, "largestPerformanceRatio": self.largest_ratio},
        }

    def __getitem__(self, key: str) -> Any:
        return self.to_json()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_json())

    def __len__(self) -> int:
        return len(self.to_json())

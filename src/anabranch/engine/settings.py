"""The settings of a session: defaults, names and how they are read from text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from anabranch.adapt.memory.site_budgets import Capacity
from anabranch.engine.task.worker.machine_memory import usual_work_memory
from anabranch.errors import ConfigError
from anabranch.exchange.address import PARTITIONS

CONF_PREFIX = "spark.anabranch."
MEBIBYTE = 1 << 20
_CHOICES = {
    "rebalance": ("auto", "mslb", "ptlb", "off"),
    "migration": ("auto", "moving_state", "parallel_track", "off"),
    "ordering": ("auto", "plan", "eddy"),
    "hot_keys": ("auto", "off"),
    "placement": ("auto", "off"),
    "routing": ("auto", "hash", "aligned", "coordinated"),
    "end_of_input": ("true", "false"),
    "isolation": ("shared", "per_site"),
    "sharing": ("auto", "always", "open", "off"),
    "sink_failures": ("wait", "end", "stop"),
    "plan_ahead": ("true", "false"),
}
_MAY_BE_AUTO = ("one_slot_rows", "skew_buffer_rows", "work_memory_mb")
_LITTLE_ROWS = 100_000
"""What one slot works on in less time than a shuffle takes, if it is not too much work."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user can set with `SET`, in Python, or as `spark.anabranch.*`."""

    sites: int = 0
    """Logical workers; 0 is one per slot."""
    slots: int = 0
    """Spark tasks per batch; 0 is one per core, and one alone where a batch is little work."""
    one_slot_rows: Literal["auto"] | int = "auto"
    """Rows of a batch up to which one slot takes them as they come, if that is little work; 0 is never.
    `auto`: 100,000 if the number of slots is not given, else never."""
    quota_pairs: int = 200_000_000
    """Pairs that a query may match in one batch at one site before it is ended: bounds its time."""
    quota_cpu_ms: int = 0
    """CPU time that a query may take in one batch before it is ended; 0 is any time."""
    work_memory_mb: Literal["auto"] | int = "auto"
    """Rows that a query may make and keep in one batch at one site, in MiB; `auto`: by the memory of the
    machine and the slots on it; 0 is any number."""
    max_drift_seconds: int = 0
    """How far event time may be ahead of this machine's clock; 0 is any distance."""
    idle_timeout_seconds: int = 0
    """After so long without rows a stream no longer holds back the others; 0 is never."""
    max_blocks: int = 12
    """Blocks of a state beyond which they are compacted."""
    keep_manifests: int = 3
    """Committed steps that stay on disk."""
    rebalance: str = "auto"
    """Whether partitions move between sites, and how where plans differ: `auto`, `mslb`, `ptlb`, `off`."""
    migration: str = "auto"
    """Whether sites change plans, and how: `auto`, `moving_state`, `parallel_track` or `off`."""
    memory_budget_mb: int = 0
    """State that a site may work on at a time, in MiB; 0 is all of it."""
    skew_buffer_rows: Capacity = "auto"
    """Rows that may wait for a later batch so that one site does not hold up the others; `auto`: as many as a
    batch has; 0 is none."""
    ordering: str = "auto"
    """How joins run without a key that all their streams share: `plan`, a join tree on one site; `eddy`,
    stations on all sites, where rows find their own way; `auto`, stations where there are several sites, by
    what each way takes."""
    routing: str = "auto"
    """How joins run that no key spreads over the sites: `hash`, all rows to one site; `aligned`, by segments
    of time over all sites; `coordinated`, along paths, joined rows travelling between sites; `auto`, by
    segments where there are several sites, and along paths once that sends much less."""
    hot_keys: str = "auto"
    """Whether keys that are more than a site's share of a join are spread over all sites: `auto` or `off`."""
    placement: str = "auto"
    """Whether queries with little work run at one site each where there are very many: `auto` or `off`."""
    isolation: str = "shared"
    """Whether sites share their blocks; `per_site`: a partition that moves is copied, and that is charged."""
    sharing: str = "auto"
    """Whether queries that one representative can answer run as one and are split after: `auto`, `off`."""
    sink_failures: str = "wait"
    """What a sink that fails leads to: `wait`, its results are kept and given to it later; `end`, its queries
    end; `stop`, the session does."""
    sink_backlog_mb: int = 1024
    """Results that may wait for one sink, in MiB, before its queries end; 0 is any number."""
    sink_backlog_steps: int = 10_000
    """Steps whose results may wait for one sink; 0 is any number."""
    plan_ahead: str = "false"
    """Whether Spark plans the next batch while one runs: `true`, `false`."""
    end_of_input: str = "false"
    """Whether a run that reads what is available and stops declares that nothing older will come."""

    def __post_init__(self) -> None:
        if not 0 <= self.sites <= PARTITIONS:
            raise ConfigError(f"sites = {self.sites}: choose 1 to {PARTITIONS}, or 0 for one per slot")
        for field in fields(self):
            value = getattr(self, field.name)
            choices = _CHOICES.get(field.name)
            if value == "auto" and field.name in _MAY_BE_AUTO:
                continue
            if choices is None and value < 0:
                raise ConfigError(f"{field.name} = {value}: it cannot be negative")
            if choices is not None and value not in choices:
                raise ConfigError(f"{field.name} = {value!r}: choose from {', '.join(choices)}")
        if self.keep_manifests < 2:
            raise ConfigError("keep_manifests: at least 2 are needed to recover from a crash")

    @property
    def memory_budget_bytes(self) -> int:
        """The memory budget of a site; 0 is none."""
        return self.memory_budget_mb * MEBIBYTE

    @property
    def work_memory_bytes(self) -> int | None:
        """What a query may make and keep in one batch at one site; None is any number."""
        if self.work_memory_mb == "auto":
            return usual_work_memory(self.slots)
        return self.work_memory_mb * MEBIBYTE or None

    @property
    def little_rows(self) -> int:
        """Rows up to which a batch may be little work; 0 before these settings are resolved."""
        return 0 if self.one_slot_rows == "auto" else self.one_slot_rows

    def resolved(self, cores: int) -> Settings:
        """These settings with numbers of slots and sites where they say 0.

        >>> Settings(slots=3).resolved(cores=8).sites
        3
        """
        slots = self.slots or cores
        rows = self.one_slot_rows
        if rows == "auto":
            rows = 0 if self.slots else _LITTLE_ROWS
        return replace(self, slots=slots, one_slot_rows=rows, sites=self.sites or min(slots, PARTITIONS))

    @property
    def uses_stations(self) -> bool:
        """Whether joins without a key that all their streams share run at stations on all sites."""
        return self.ordering == "eddy" or (self.ordering == "auto" and self.sites > 1)

    @property
    def uses_eddies(self) -> bool:
        """Whether joins of three streams and more on one key do."""
        return self.ordering == "eddy"

    def with_values(self, values: Iterable[tuple[str, str]]) -> Settings:
        """These settings with others read from text.

        >>> Settings().with_values([("sites", "8")]).sites
        8
        """
        changed: dict[str, Any] = {}
        known = [f.name for f in fields(self)]
        for name, text in values:
            key = name.lower().removeprefix(CONF_PREFIX)
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
                raise ConfigError(f"unknown setting {name!r}: {hint}")
            try:
                changed[key] = _value(key, text)
            except ValueError:
                wanted = "a whole number or 'auto'" if key in _MAY_BE_AUTO else "a whole number"
                raise ConfigError(f"{name} = {text!r}: {wanted} is needed") from None
        return replace(self, **changed)


def _value(key: str, text: str) -> int | str:
    word = str(text).lower()
    return word if key in _CHOICES or (key in _MAY_BE_AUTO and word == "auto") else int(text)

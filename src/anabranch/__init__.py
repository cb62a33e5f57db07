"""Continuous queries on Spark that adapt while they run, and never change their answer."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.adapt.events import Event, EventKind
    from anabranch.engine.listener import Listener
    from anabranch.engine.progress import Progress
    from anabranch.engine.sinks.console_sink import console
    from anabranch.engine.sinks.kafka_topic import kafka
    from anabranch.engine.sinks.memory_sink import memory
    from anabranch.engine.sinks.parquet_sink import parquet
    from anabranch.engine.sinks.shared_sink import shared
    from anabranch.engine.sinks.sink import ResultBatch, Sink
    from anabranch.errors import AnabranchError, ConfigError, QueryError, RunError, SinkError, StateError
    from anabranch.language.flow import parse_flow
    from anabranch.spark.predicates import predicate
    from anabranch.spark.run import Run
    from anabranch.spark.session import Session
    from anabranch.spark.start.spark_session import spark_session
    from anabranch.state.errors import (
        CheckpointInUseError,
        CorruptionError,
        FencedError,
        InvalidNameError,
        ManifestConflict,
        UnsupportedVersionError,
    )

__all__ = [
    "AnabranchError",
    "CheckpointInUseError",
    "ConfigError",
    "CorruptionError",
    "Event",
    "EventKind",
    "FencedError",
    "InvalidNameError",
    "Listener",
    "ManifestConflict",
    "Progress",
    "QueryError",
    "ResultBatch",
    "Run",
    "RunError",
    "Session",
    "Sink",
    "SinkError",
    "StateError",
    "UnsupportedVersionError",
    "__version__",
    "console",
    "kafka",
    "memory",
    "parquet",
    "parse_flow",
    "predicate",
    "shared",
    "spark_session",
    "testing",
]

try:
    __version__ = version("anabranch")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"

_HOMES = {
    "CheckpointInUseError": "state.errors",
    "CorruptionError": "state.errors",
    "FencedError": "state.errors",
    "InvalidNameError": "state.errors",
    "ManifestConflict": "state.errors",
    "UnsupportedVersionError": "state.errors",
    "Event": "adapt.events",
    "EventKind": "adapt.events",
    "Listener": "engine.listener",
    "Progress": "engine.progress",
    "ResultBatch": "engine.sinks.sink",
    "Run": "spark.run",
    "Session": "spark.session",
    "Sink": "engine.sinks.sink",
    "console": "engine.sinks.console_sink",
    "kafka": "engine.sinks.kafka_topic",
    "memory": "engine.sinks.memory_sink",
    "parquet": "engine.sinks.parquet_sink",
    "parse_flow": "language.flow",
    "predicate": "spark.predicates",
    "shared": "engine.sinks.shared_sink",
    "spark_session": "spark.start.spark_session",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: PySpark and Numba take a second, `--help` needs neither."""
    if name == "testing":  # a room of its own: the test kit
        return import_module(f"{__name__}.testing")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    """What notebooks complete: also what is not loaded yet, and nothing that is only used here."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

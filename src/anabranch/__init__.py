"""Continuous queries on Spark that adapt while they run, and never change their answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.errors import AnabranchError, ConfigError, QueryError, SinkError, StateError
    from anabranch.language.flow import parse_flow
    from anabranch.runtime.run import Run
    from anabranch.runtime.session import Session
    from anabranch.runtime.sinks import console, memory, parquet
    from anabranch.runtime.spark_session import spark_session

__all__ = [
    "AnabranchError",
    "ConfigError",
    "QueryError",
    "Run",
    "Session",
    "SinkError",
    "StateError",
    "console",
    "memory",
    "parquet",
    "parse_flow",
    "spark_session",
]

_HOMES = {
    "Run": "runtime.run",
    "Session": "runtime.session",
    "console": "runtime.sinks",
    "memory": "runtime.sinks",
    "parquet": "runtime.sinks",
    "parse_flow": "language.flow",
    "spark_session": "runtime.spark_session",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: PySpark and Numba take a second, `--help` needs neither."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)

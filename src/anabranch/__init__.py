"""Continuous queries on Spark that adapt while they run, and never change their answer."""

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

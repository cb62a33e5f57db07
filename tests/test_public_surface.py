"""What users may import and call; a change here is a change for them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import anabranch as ab
from anabranch.spark.run import Run

NAMES = """
AnabranchError CheckpointInUseError ConfigError CorruptionError Event EventKind FencedError InvalidNameError
Listener ManifestConflict Progress QueryError ResultBatch Run RunError Session Sink SinkError StateError
UnsupportedVersionError __version__ console kafka memory parquet parse_flow predicate shared spark_session
testing
"""
HANDLE = """
add awaitTermination drop events exception explain id isActive lastProgress migrate name processAllAvailable
recentProgress replace rescale runId set status stop streamingQuery
"""
SESSION = "checkpoint drop explain load query settings spark start stream table"
INSIDE = {"ForeignResultsError", "IngestError", "NotYetKnown", "Undecided"}
"""Errors that are caught inside the package: users meet the classes above them."""
LISTENER = "on_end on_event on_progress"
COMMANDS = ("anabranch.cli", "anabranch.bench", "anabranch.reproduce")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_names_of_the_package_are_these_and_all_can_be_had() -> None:
    assert ab.__all__ == sorted(NAMES.split(), key=lambda name: (name[0].islower(), name))
    assert all(getattr(ab, name) is not None for name in ab.__all__)
    assert {name for name in dir(ab) if not name.startswith("__")} == set(ab.__all__) - {"__version__"}


def test_names_complete_before_anything_is_loaded() -> None:
    script = (
        "import sys, anabranch as ab; assert set(ab.__all__) <= set(dir(ab)); print('pyspark' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        ab.nonsense  # noqa: B018


@pytest.mark.parametrize(("kind", "names"), [(Run, HANDLE), (ab.Listener, LISTENER)], ids=["run", "listener"])
def test_handles_have_these_methods_and_no_plumbing(kind: type, names: str) -> None:
    assert public(kind) == set(names.split())


def test_a_session_has_these_methods() -> None:
    assert public(ab.Session) | {"checkpoint", "spark"} == set(SESSION.split())


def test_every_error_class_is_public() -> None:
    for module in walk_packages(ab.__path__, "anabranch."):
        if not module.name.startswith(COMMANDS):
            import_module(module.name)
    ours = {e for e in _below(ab.AnabranchError) if e.__module__.startswith("anabranch.")}
    errors = {error.__name__ for error in ours if not error.__module__.startswith(COMMANDS)}
    assert errors - INSIDE <= set(ab.__all__)
    assert len(errors) > 8


def _below(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_below(sub) for sub in kind.__subclasses__()))


@pytest.mark.parametrize("name", [name for name in ab.__all__ if name != "__version__"])
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert (getattr(ab, name).__doc__ or "").strip()

"""Whatever Spark throws comes out as an error of ours that says what to do."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError, RunError, StateError
from anabranch.spark.failures import explain_failure
from anabranch.state import CorruptionError

TRACE = "An exception was thrown from the Python worker. Please see the stack trace below.\nTraceback …\n"

CASES: dict[str, tuple[str, type[AnabranchError], str]] = {
    "a module that workers lack": (
        "ModuleNotFoundError: No module named 'anabranch'",
        RunError,
        "lacks the package 'anabranch'",
    ),
    "a full disk": (
        "OSError: [Errno 28] No space left on device: '/ck/blocks/x'",
        RunError,
        "disk is full /ck/blocks/x",
    ),
    "a full disk in the JVM": ("IOException: No space left on device\n\tat …", RunError, "disk is full"),
    "a file too large": ("OSError: [Errno 27] File too large", RunError, "disk is full"),
    "a forbidden folder": (
        "PermissionError: [Errno 13] Permission denied: '/ck/staged'",
        RunError,
        "Permission denied /ck/staged",
    ),
    "a file where a folder should be": (
        "NotADirectoryError: [Errno 20] Not a directory: '/ck/staged/x'",
        RunError,
        "/ck/staged/x",
    ),
    "a damaged block": (
        f"{TRACE}anabranch.state.errors.CorruptionError: /ck/a.arrow: expected 10 bytes, found 9 bytes. Go",
        CorruptionError,
        "/ck/a.arrow: expected 10 bytes, found 9 bytes",
    ),
    "another writer": (
        f"{TRACE}anabranch.state.errors.FencedError: this session must stop",
        StateError,
        "must stop",
    ),
    "an unreadable file": (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [FAILED_READ_FILE.NO_HINT] Encountered "
        "error while reading file file:///in/a/3.parquet.  SQLSTATE: KD001 SQLSTATE: XXKST",
        RunError,
        r"file file:///in/a/3\.parquet cannot be read",
    ),
    "a dead Python worker": (
        "SparkException: Python worker exited unexpectedly (crashed)",
        RunError,
        "Python worker died",
    ),
    "a dead JVM": ("Py4JNetworkError: Answer from Java side is empty", RunError, "JVM has ended"),
    "an error of a user's function": (
        f"{TRACE}Traceback (most recent call last):\n  …\nValueError: no good\n\n\tat java…",
        RunError,
        "the run stopped: ValueError: no good",
    ),
    "something else": ("something else\nand more", RunError, "the run stopped: something else"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failure_is_explained(case: str) -> None:
    text, kind, message = CASES[case]
    explained = explain_failure(Exception(text))
    assert isinstance(explained, kind)
    with pytest.raises(kind, match=message):
        raise explained


def test_errors_of_ours_stay_as_they_are() -> None:
    error = AnabranchError("x")
    assert explain_failure(error) is error

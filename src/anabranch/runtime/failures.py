"""Why a run failed, in words that say what to change."""

from __future__ import annotations

import re

from anabranch.errors import AnabranchError

_CAUSES = (
    (
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        "the Python of Spark's workers lacks the package {0!r}: install anabranch there, or point "
        "PYSPARK_PYTHON at an interpreter that has it",
    ),
    (r"No space left on device", "a disk is full: free space where the checkpoint, the sink or Spark's local "
     "directory lie, then start again; nothing is lost"),
    (r"Permission denied[^\n]*", "permission denied ({match}): let this user write there, then start again"),
    (r"(?:CorruptionError|StateError|FencedError): ([^\n]+)", "{0}"),
    (r"FAILED_READ_FILE[.\w]*\] ([^\n]+)", "a source file cannot be read: {0}. Repair or remove it, then start "
     "again; the batch is repeated"),
    (r"\[PATH_NOT_FOUND\] ([^\n]+)", "{0}"),
    (r"AssertionError: ([^\n]+)", "internal error: {0}"),
)  # fmt: skip


class RunError(AnabranchError):
    """A run stopped because of a failure outside the queries; the state is at the last commit."""


def explain_failure(error: BaseException) -> AnabranchError:
    """The failure as an error of ours, with the original as its cause."""
    if isinstance(error, AnabranchError):
        return error
    text = str(error)
    for pattern, message in _CAUSES:
        if found := re.search(pattern, text):
            return RunError(message.format(*found.groups(), match=found.group(0)))
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return RunError(f"the run stopped: {first}")

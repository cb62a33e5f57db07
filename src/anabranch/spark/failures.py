"""Why a run failed, in words that say what to change."""

from __future__ import annotations

import re
from collections.abc import Callable

from anabranch.errors import AnabranchError, RunError, StateError
from anabranch.state.errors import CorruptionError


def explain_failure(error: BaseException) -> AnabranchError:
    """The failure as an error of ours, with the original as its cause."""
    if isinstance(error, AnabranchError):
        return error
    text = f"{type(error).__name__}: {error}"
    for pattern, explain in _CAUSES:
        if found := re.search(pattern, text, re.DOTALL):
            return explain(found)
    return RunError(f"the run stopped: {_gist(error)}. {_REPEATED}")


def _gist(error: BaseException) -> str:
    """The line that says most: the exception of a Python worker if there is one, else the first."""
    raised = re.findall(
        r"^(?!org\.|java\.|scala\.|py4j\.)[\w.]+(?:Error|Exception): [^\n]+", str(error), re.M
    )
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return str(raised[-1] if raised else first).strip().rstrip(".")


_REPEATED = "The state is at the last committed batch: start again, and the batch under way is repeated"

Explain = Callable[[re.Match[str]], AnabranchError]


def _says(message: str) -> Explain:
    def explain(found: re.Match[str]) -> AnabranchError:
        parts = [(part or "").strip().rstrip(".") for part in found.groups()]
        return RunError(f"{message.format(*parts)}. {_REPEATED}")

    return explain


def _corruption(found: re.Match[str]) -> AnabranchError:
    """Raised in a Python worker; only its text reached us."""
    file, expected, what, advice = found.groups()
    return CorruptionError(file, expected=expected, found=what, advice=advice.strip())


def _state_error(found: re.Match[str]) -> AnabranchError:
    return StateError(found[1].strip())


_LINE = r"([^\n]+)"
_CAUSES: tuple[tuple[str, Explain], ...] = (
    (r"CorruptionError: ([^\n]+?): expected ([^\n]+?), found ([^\n]+?)\. ([^\n]+)", _corruption),
    (rf"(?:StateError|FencedError|ManifestConflict|CheckpointInUseError): {_LINE}", _state_error),
    (
        r"UnknownTopicOrPartitionException: ([^\n]+)",
        _says("Kafka has no such topic ({0}): create it, or correct its name"),
    ),
    (
        r"kafka[\w.]*\.TimeoutException: ([^\n]+)",
        _says("Kafka does not answer ({0}): see to its brokers, or correct kafka.bootstrap.servers"),
    ),
    (
        r"(Cannot fetch offset \d+|Partition \S+ offset was changed|Partitions \S+ are gone)[^\n]*",
        _says(
            "Kafka has deleted messages that were not read yet ({0}): keep them longer, or, to go on without "
            "them, set the option failOnDataLoss = false of the stream"
        ),
    ),
    (
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        _says(
            "the Python of Spark's workers lacks the package {0!r}: install anabranch there, or point "
            "PYSPARK_PYTHON at an interpreter that has it"
        ),
    ),
    (
        r"No space left on device(?:[^\n]*?: '([^'\n]*)')?|Disk quota exceeded|File too large",
        _says("a disk is full {0}: free space where the checkpoint, the sink or Spark's local directory lie"),
    ),
    (
        r"(Permission denied|Read-only file system|Operation not permitted|Not a directory|File exists)"
        r"(?:[^\n]*?'([^'\n]*)')?",
        _says("{0} {1}: let this user write there"),
    ),
    (
        r"PARQUET_COLUMN_DATA_TYPE_MISMATCH\] [^\n]*?reading file ([^\s]+?)\.? "
        r"(Data type mismatch[^\n]+?)(?: SQLSTATE|\n)",
        _says("source file {0} has another type than its stream declares: {1}. Repair or remove the file"),
    ),
    (
        r"FAILED_READ_FILE[.\w]*\] [^\n]*?(file:[^\s]+|s3\S+|hdfs:\S+)([^\n]*)",
        _says("source file {0} cannot be read: repair it, or remove it and do without its rows"),
    ),
    (r"\[PATH_NOT_FOUND\] ([^\n]+?)(?: SQLSTATE|\n|$)", _says("{0}")),
    (
        r"(?:Python worker exited unexpectedly|Python worker failed|Crash of Python worker)",
        _says(
            "a Python worker died: it was killed, or the machine ran out of memory. If so, set fewer slots "
            "or a smaller work_memory_mb, or take fewer rows per batch"
        ),
    ),
    (
        r"OutOfMemoryError: ([^\n]+)",
        _says("Spark ran out of memory ({0}): raise spark.driver.memory, or take fewer rows per batch"),
    ),
    (
        r"(?:Py4JNetworkError|Connection refused|Connection reset|Answer from Java side is empty)",
        _says("Spark's JVM has ended"),
    ),
    (
        r"(?:Incomplete log file|Malformed log file|Failed to read log file|batch \d+ doesn't exist)([^\n]*)",
        _says(
            "Spark's own checkpoint (folder 'spark') is damaged: restore the whole checkpoint from a copy {0}"
        ),
    ),
    (r"AssertionError: ([^\n]+)", _says("internal error: {0}")),
    (r"terminated with exception: ([^\n]+)", _says("the run stopped: {0}")),
)

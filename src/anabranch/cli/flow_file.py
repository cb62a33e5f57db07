"""Reading a flow file, and finding what is wrong with it before Spark starts."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.cli.screen.telling import InputError
from anabranch.engine.settings import Settings
from anabranch.errors import ConfigError, QueryError
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import Connector, Flow

FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
"""Spark's sources that read files below a path."""


def read_flow(path: Path) -> Flow:
    """Parse and bind a flow file, and check its settings.

    Raises
    ------
    QueryError
        With the file, line, column and a suggestion.
    InputError
        The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
    except FileNotFoundError:
        raise InputError(
            f"there is no flow file {path}: give the path of a file with CREATE statements"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    flow = parse_flow(text, path=str(path))
    _check_settings(flow, text, path)
    return flow


def check_sources(flow: Flow) -> None:
    """Refuse sources whose directory does not exist; the rest only Spark can tell."""
    streams = [(f"stream {s.name!r}", s.source) for s in flow.streams]
    for what, source in (*streams, *((f"table {t.name!r}", t.source) for t in flow.tables)):
        if source is not None and (path := local_path(source)) and not path.exists():
            raise ConfigError(
                f"{what} reads {source.format} files from {str(path)!r}, which does "
                "not exist. Relative paths start in the directory in which anabranch was started; create it "
                "if its files come later"
            )


def local_path(source: Connector) -> Path | None:
    """The directory of a file source on this machine, if it is that plain."""
    plain = source.path and not re.search(r"[*?\[{]|^\w+:", source.path)
    return Path(source.path or "") if plain and source.format.lower() in FILE_FORMATS else None


def _check_settings(flow: Flow, text: str, path: Path) -> None:
    for name, value in flow.settings:
        try:
            Settings().with_values([(name, value)])
        except ConfigError as error:
            line, column = _place_of_setting(text, name)
            message, _, suggestion = str(error).partition(": ")
            raise QueryError(
                message, line=line, column=column, suggestion=suggestion, source=text, path=str(path)
            ) from None


def _place_of_setting(text: str, name: str) -> tuple[int, int]:
    """Line and column of `SET name`."""
    found = re.search(rf"\bSET\s+({re.escape(name)})\b", text, re.IGNORECASE)
    before = text[: found.start(1)] if found else ""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

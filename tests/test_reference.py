"""The reference is complete: whatever the code has, a page names; whatever file a page names, is there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import anabranch as ab
from anabranch.adapt.routing.join_routing import JoinRouting
from anabranch.cli.app import app
from anabranch.engine.progress import EddyProgress, Progress, QueryProgress, StateProgress, StreamProgress
from anabranch.engine.settings import Settings
from anabranch.spark.run import Run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
API = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
TOLD = (DOCS / "reference" / "progress-and-events.md").read_text(encoding="utf-8")
LANGUAGE = (DOCS / "language.md").read_text(encoding="utf-8")
DATED = "design"
"""Notes of a day: they name what was there then, or what is to come."""
ELSEWHERE = {"utils.py", "make_rooms.py", "rooms.sql", "flow.sql"}
"""Files of the reader, and one that there must not be."""


def _names(text: str) -> set[str]:
    """Words between backticks."""
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w-]+", code)}


def test_every_kind_of_event_is_explained() -> None:
    assert {str(kind) for kind in ab.EventKind} <= _names(TOLD)


def test_every_kind_of_event_on_the_page_exists() -> None:
    table = TOLD[TOLD.index("## Events") : TOLD.index("## Spark Connect")]
    kinds = {word for line in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for word in _names(line)}
    assert kinds <= {str(kind) for kind in ab.EventKind}


def test_every_key_of_progress_is_explained() -> None:
    eddy = EddyProgress.of(
        {
            "query": "q",
            **dict.fromkeys(("references", "stations", "tickets", "selectivities", "shares", "drawn"), ()),
            "decidedBy": "lottery",
        }
    )
    stream = StreamProgress(None, 0, 0, 0, 0, lag={"topic": {"0": 1}})
    parts = (stream, QueryProgress("running", 0, 0, "why"), StateProgress(0, 0, 0), eddy)
    keys = {key for part in parts for key in part.to_json()}
    assert keys | {field.name for field in fields(Progress)} <= _names(TOLD)


def test_the_table_of_routing_is_the_schema_of_its_records() -> None:
    table = TOLD[TOLD.index("### Routing") : TOLD.index("## Events")]
    told = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", table, re.MULTILINE)
    join = JoinRouting("q", "aligned", 4)
    assert {key for key, _ in told} == set(join.to_json())
    assert {name for _, name in told} == {field.name for field in fields(JoinRouting)}
    assert JoinRouting.from_json(join.to_json()) == join


def test_every_setting_is_explained() -> None:
    assert {field.name for field in fields(Settings)} <= _names(LANGUAGE)


def test_every_public_name_is_in_the_reference() -> None:
    assert set(ab.__all__) - {"__version__"} <= _names(API + TOLD)


def test_every_method_is_in_the_reference() -> None:
    of_session = set(re.findall(r"\bsession\.(\w+)", API))
    assert {name for name in dir(ab.Session) if not name.startswith("_")} <= of_session
    of_run = _names(API[API.index("## Run") : API.index("## Sinks")])
    assert {name for name in dir(Run) if not name.startswith("_")} <= of_run


def test_every_command_is_in_the_reference() -> None:
    assert set(typer.main.get_command(app).commands) <= _names(API)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "page",
    [p for p in (*sorted(DOCS.rglob("*.md")), ROOT / "README.md") if p.parent.name != DATED],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_file_of_the_project_that_a_page_names_exists(page: Path) -> None:
    folders = (ROOT, ROOT / "src" / "anabranch", ROOT / "tests", DOCS)
    known = {path.name for top in ("src", "tests", "examples", "scripts") for path in (ROOT / top).rglob("*")}
    for name in _files_named(page.read_text(encoding="utf-8")):
        there = any(list(folder.glob(name)) for folder in folders)
        assert there or ("/" not in name and name in known), f"{page.name} names {name}"


def _files_named(text: str) -> list[str]:
    """Paths between backticks that have an ending of ours or begin with a folder of ours.

    >>> _files_named("`plan/{tree,bands}.py`, `tests/runtime`, `a.b`")
    ['plan/tree.py', 'plan/bands.py', 'tests/runtime']
    """
    found: list[str] = []
    for path in re.findall(r"`([\w./{},*-]+)`", text):
        before, brace, rest = path.partition("{")
        inner, _, after = rest.partition("}")
        found += [f"{before}{name}{after}" for name in inner.split(",")] if brace else [path]
    ours = re.compile(r".*\.(py|sh)|(tests|src|examples|scripts)/.*")
    return [path for path in found if ours.fullmatch(path) and path not in ELSEWHERE]

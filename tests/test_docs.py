"""The documentation: every link leads somewhere, every page is in the site, every command exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.docs import pages
from anabranch.reproduce.report.titles import TITLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
_FENCES = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?:\S*/)?(\S+)\.(?:png|svg)\)")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def _prose(page: Path) -> str:
    text = _FENCES.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    """Names of headings as the site and code hosts make them."""
    text = _FENCES.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", t)).strip().lower() for t in titles)
    return {re.sub(r"[ ]+", "-", t) for t in plain} | {t.replace(" ", "-") for t in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in _anchors(target), f"{link}: choose from {sorted(_anchors(target))}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.is_relative_to(DOCS)], ids=lambda p: str(p.relative_to(DOCS))
)
def test_links_of_the_site_stay_inside_it_and_every_page_can_be_found(page: Path) -> None:
    for link in _LINK.findall(_prose(page)):
        path = link.partition("#")[0]
        if path and not re.match(r"[a-z]+:", link):
            assert (page.parent / path).resolve().is_relative_to(DOCS), f"{link} leaves the site"
    name = str(page.relative_to(DOCS))
    assert name in NAVIGATION or name.startswith("design/"), f"{name} is not in mkdocs.yml"


def test_the_navigation_names_only_pages_that_exist() -> None:
    for name in re.findall(r"^ *- .*: (\S+\.md)$", NAVIGATION, re.MULTILINE):
        assert (DOCS / name).is_file(), name


def test_commands_in_the_docs_exist() -> None:
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r"(?:^|[`$] ?|bin/)anabranch ([a-z]+)\b", text, re.MULTILINE))
        assert used <= known, f"{page.name}: {used - known}"


def test_every_page_is_shipped_with_the_package_and_can_be_shown() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    shipped = re.findall(r'^"(docs/\S+\.md)" = "anabranch/pages/\S+"$', pyproject, re.MULTILINE)
    there = {*DOCS.glob("*.md"), *(DOCS / "reference").glob("*.md")} - {DOCS / "index.md"}
    assert {ROOT / name for name in shipped} == there
    assert pages() == sorted(page.stem for page in there)
    listed = CliRunner().invoke(app, ["docs"]).output
    assert re.search(r"^  anabranch docs tutorial +From your own CSV to your own join$", listed, re.MULTILINE)


def test_every_picture_says_in_a_sentence_what_it_shows() -> None:
    pictures = [
        (page, alt, name) for page in PAGES for alt, name in _PICTURE.findall(page.read_text("utf-8"))
    ]
    assert len(pictures) >= 28
    for page, alt, name in pictures:
        assert len(alt.split()) >= 4, f"{page.name}: {name}"
        if page.parent.name == "experiments":
            assert alt == TITLES[name], f"{page.name}: {name}"

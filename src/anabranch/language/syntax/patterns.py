"""Texts that differ in nothing but constants are parsed once.

Programs submit thousands of queries that differ in an item or a price, and parsing is most of what binding
takes. A text without its constants is its pattern. The lexer reads the same tokens of two texts with one
pattern: a number stays a number, text in quotes stays that. The parser does not look into them, and so the
tree of one is that of the other with other constants. What is made of the tree is made anew for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.language.syntax.dialect import MAX_WINDOW_US, StreamWindow
from anabranch.language.syntax.duration import duration_us

T = TypeVar("T")
MOST_PATTERNS = 256
LONGEST = 10_000
"""Characters of a text that has a pattern."""
_NUMBER, _TEXT = "\0", "\1"
"""Stand for constants in a pattern."""
_CONSTANT = re.compile(
    r"(`[^`]*`)"  # names in back-quotes stay as they are
    r"|(?<![\w.'])([0-9]+(?:\.[0-9]+)?)(?=(?:[LSYDF]|BD)?(?![\w.'`]))"
    r"|(?<![\w'])'([^']*)'(?!')",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"""[\0\1"\\]|--|/\*""")
"""Signs with which a constant may not be what it looks like."""
_WINDOW = re.compile(r"\[\s*RANGE\s+([0-9]+)\s+(\w+)\s*\]", re.IGNORECASE)


class Patterns:
    """Parses texts; those of a pattern that it has seen by filling in constants.

    Parameters
    ----------
    parse
        The parser, whose nodes remember where they were read.
    """

    def __init__(self, parse: Callable[[str], exp.Expr]) -> None:
        self._parse = parse
        self._known: dict[str, _Tree] = {}
        self._lock = Lock()

    def read(self, text: str, use: Callable[[exp.Expr], T]) -> T:
        """What `use` makes of the tree of a text. The tree is not its own to keep or to change."""
        pattern, constants = _apart(text)
        with self._lock:
            tree = self._known.get(pattern)
            if tree is not None and tree.fill(constants):
                try:
                    return use(tree.root)
                except AnabranchError:
                    pass  # it points at places in another text
        root = self._parse(text)
        found = use(root)
        if pattern and pattern not in self._known:
            with self._lock:
                while len(self._known) >= MOST_PATTERNS:
                    del self._known[next(iter(self._known))]
                self._known[pattern] = _tree(root, text, constants)
        return found


def pattern_of(text: str) -> str:
    """A text without its constants; the text itself where they cannot be told by looking at signs."""
    return _apart(text)[0] or text


def _apart(text: str) -> tuple[str, list[str]]:
    """The pattern of a text and its constants; no pattern where it cannot be told by looking at signs.

    >>> _apart("SELECT id FROM a WHERE item = 12 AND name <> 'x'")
    ('SELECT id FROM a WHERE item = \\x00 AND name <> \\x01', ['12', 'x'])
    """
    if len(text) > LONGEST or _FOREIGN.search(text):
        return "", []
    pieces, constants = [], []
    parts = _CONSTANT.split(text)
    for plain, name, number, quoted in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=False):
        pieces.append(plain)
        if name is not None:
            pieces.append(name)
        elif number is not None:
            pieces.append(_NUMBER)
            constants.append(number)
        else:
            pieces.append(_TEXT)
            constants.append(quoted)
    return "".join((*pieces, parts[-1])), constants


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a constant goes in a tree.

    Attributes
    ----------
    node
        A literal or a window; None for a constant that must stay as it is, because the parser may look at it.
    constant
        As it was in the first text.
    unit
        Of a window.
    """

    node: exp.Expr | None
    constant: str
    unit: str = ""

    def fill(self, constant: str) -> bool:
        """Put another constant here; False where the tree would be another."""
        if self.node is None:
            return constant == self.constant
        if not self.unit:
            self.node.set("this", constant)
            return True
        size = duration_us(constant, self.unit)
        if size is None or size > MAX_WINDOW_US:
            return False
        self.node.set("size", size)
        return True


@dataclass(frozen=True, slots=True)
class _Tree:
    """The tree of a pattern, and where its constants go."""

    root: exp.Expr
    places: tuple[_Place, ...]

    def fill(self, constants: list[str]) -> bool:
        """Make it the tree of another text; False where it cannot be."""
        return all(place.fill(each) for place, each in zip(self.places, constants, strict=True))


def _tree(root: exp.Expr, text: str, constants: list[str]) -> _Tree:
    """The tree of a pattern, made of the first text that has it."""
    nodes = _nodes(root, text)
    at = (m.start() for m in _CONSTANT.finditer(text) if m[1] is None)
    places = (
        _Place(nodes[start][0], constant, nodes[start][1]) if start in nodes else _Place(None, constant)
        for start, constant in zip(at, constants, strict=True)
    )
    return _Tree(root, tuple(places))


def _nodes(root: exp.Expr, text: str) -> Mapping[int, tuple[exp.Expr | None, str]]:
    """By place in the text, its constants in the tree; None for one that is there twice."""
    found: dict[int, tuple[exp.Expr | None, str]] = {}
    for node in root.walk():
        if isinstance(node, exp.Literal):
            start, unit = _start_of_literal(node, text), ""
        elif isinstance(node, StreamWindow) and node.args["kind"] == "RANGE":
            window = _WINDOW.match(text, node.meta["start"])
            start, unit = (-1, "") if window is None else (window.start(1), window[2])
        else:
            continue
        found[start] = (None if start in found else node), unit
    return found


def _start_of_literal(node: exp.Literal, text: str) -> int:
    """Where a literal stands in a text; -1 for one that the parser may have looked into."""
    start = int(node.meta.get("start", -1))
    written = f"'{node.this}'" if node.is_string else node.this
    if start < 0 or not text.startswith(written, start):
        return -1
    parent = node.parent
    if isinstance(parent, exp.Cast | exp.TryCast):  # TIMESTAMP '…' is one, too
        return start if not node.is_string or text[start - 1] == "(" else -1
    if isinstance(parent, exp.DataTypeParam) and isinstance(parent.parent, exp.DataType):
        return start if parent.parent.this is exp.DataType.Type.DECIMAL else -1
    return start if isinstance(parent, _OPERATIONS) else -1


_OPERATIONS = (exp.Predicate, exp.Binary, exp.Unary, exp.Alias, exp.Select, exp.Case, exp.If, exp.Anonymous)
"""Of their operands the parser knows that they are constants, and no more."""

"""The catalog as a log: a file with all of it, and files with what has changed since.

So a query that comes or goes costs what it brings, however many there are. A change says at which places of
the JSON other values stand, or none any more. Files of changes are merged by eights, like digits of a number,
and when they have grown to half of the catalog it is written whole again: few files, each value written a few
times. All of them are side files: durable before the manifest that names them, spared while one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.state.paths import CATALOGS
from anabranch.state.side_file import SideFile
from anabranch.state.stamp import Stamp

FAN = 8
"""Files of one level that become one of the next."""
FEW = 64
"""Changed places for which a catalog is never written again."""

Place = tuple[str, ...]
"""Keys from the outermost object inwards."""
Changes = Mapping[Place, Sequence[Any]]
"""By place its new value, alone in a list; an empty list where there is none any more."""


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of changes; its level says how often eight files were merged to make it."""

    file: SideFile
    level: int
    changes: Changes = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalogLog:
    """Where a catalog lies: all of it as it once was, and what has changed since, in this order."""

    whole: SideFile
    changes: tuple[ChangeFile, ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any], stamp: Stamp) -> CatalogLog:
        """Write a catalog whole."""
        return cls(SideFile.of(CATALOGS, stamp, content))

    def with_changes(self, changes: Changes, content: Mapping[str, Any], stamp: Stamp) -> CatalogLog:
        """The log after some more changes.

        Parameters
        ----------
        content
            The catalog after them.
        """
        if not changes:
            return self
        places = len(changes) + sum(len(known.changes) for known in self.changes)
        if places > max(FEW, len(content.get("queries", ())) // 2):
            return CatalogLog.of(content, stamp)
        kept, level = list(self.changes), 0
        while len(same := kept[1 - FAN :]) == FAN - 1 and all(known.level == level for known in same):
            del kept[1 - FAN :]
            changes = merged([*(known.changes for known in same), changes])
            level += 1
        rows = [[list(place), *value] for place, value in changes.items()]
        return CatalogLog(self.whole, (*kept, ChangeFile(SideFile.of(CATALOGS, stamp, rows), level, changes)))

    @property
    def files(self) -> tuple[SideFile, ...]:
        return (self.whole, *(known.file for known in self.changes))


def merged(all_changes: Sequence[Changes]) -> Changes:
    """Changes that follow each other, as one: of each place the last.

    >>> merged([{("a", "x"): [1]}, {("a", "y"): [2]}, {("a", "x"): []}])
    {('a', 'x'): [], ('a', 'y'): [2]}
    """
    return {place: value for changes in all_changes for place, value in changes.items()}


def patched(content: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """A catalog after some changes; nothing of the one before is changed, and what stays is shared.

    >>> patched({"queries": {"a": 1, "b": 2}}, {("queries", "a"): [], ("queries", "c"): [3]})
    {'queries': {'b': 2, 'c': 3}}
    """
    after = dict(content)
    own: dict[Place, dict[str, Any]] = {(): after}
    for (*path, last), value in changes.items():
        inner = _own(own, tuple(path))
        if value:
            (inner[last],) = value
        else:
            inner.pop(last, None)
    return after


def _own(own: dict[Place, dict[str, Any]], path: Place) -> dict[str, Any]:
    """The object at a path, copied once."""
    if path not in own:
        outer = _own(own, path[:-1])
        own[path] = outer[path[-1]] = dict(outer.get(path[-1], {}))
    return own[path]


def changes_from(rows: Sequence[Sequence[Any]]) -> Changes:
    """Changes as a file has them."""
    return {tuple(place): value for place, *value in rows}

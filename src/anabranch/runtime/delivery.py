"""Which committed step the sinks have taken last, so that a restart does not give it to them again.

A note beside the manifests, replaced after every step. It may be lost, and one step behind when a
process dies between the sinks and the note: then the sinks see that step twice, and no other.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.state.layout import DELIVERED


def note_delivered(root: Path, digest: str) -> None:
    """The sinks have the results of the manifest with this digest."""
    fresh = root / f"{DELIVERED}.new"
    fresh.write_text(digest, encoding="ascii")
    fresh.replace(root / DELIVERED)


def last_delivered(root: Path) -> str | None:
    """The digest of the last manifest whose results the sinks are known to have, if any is."""
    try:
        return (root / DELIVERED).read_text(encoding="ascii")
    except FileNotFoundError:
        return None

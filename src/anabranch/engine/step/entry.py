"""Entry of a batch: it must continue the state."""

from __future__ import annotations

from anabranch.errors import StateError
from anabranch.state import Manifest


def check_entry(manifest: Manifest | None, batch: int, *, offsets: str, source_id: str) -> None:
    """Refuse a batch that does not continue the state: it would skip or repeat rows."""
    newest_batch = manifest.batch if manifest else -1
    advice = "Restore both from the same moment, or start with a new checkpoint"
    if manifest is not None and manifest.source_id != source_id:
        raise StateError(
            f"the state is at batch {newest_batch}, but Spark's own checkpoint (folder 'spark' inside "
            f"ours) was deleted or replaced, so that Spark would start over. {advice}"
        )
    if batch not in (newest_batch, newest_batch + 1):
        raise StateError(
            f"Spark wants to run batch {batch}, but the state is at batch {newest_batch}: one of the two "
            f"was restored without the other. {advice}"
        )
    if manifest is not None and batch == newest_batch and manifest.offsets != offsets:
        raise StateError(
            f"batch {batch} was committed with other source offsets than Spark gives it now. {advice}"
        )

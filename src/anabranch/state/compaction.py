"""Compaction: decide which blocks to merge, so that a state is never more than a few blocks.

The smallest blocks are merged, at least `FAN_IN` of them, when the merger is at least `GROWTH`
times as big as the biggest of them. So every rewrite of a row doubles the block it lies in, and
a row is rewritten logarithmically often; and where nothing can be merged, sizes grow like powers of
two, so that few blocks remain. Fixed size tiers would rewrite a big block for the sake of a small
one whenever their sum crosses the bound of a tier.

Under a memory budget a merger is written in pieces, a block per range of partitions. They count as one
block here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from anabranch.state.block import BlockMeta

FAN_IN = 4
GROWTH = 2
FULL_GROWTH = 1.1
"""The same for a bucket that gets no more rows."""
# Mergers below this size cost next to nothing, however often they are repeated.
TINY_ROWS = 4096

Group = tuple[str, ...]


def plan_compaction(
    blocks: Sequence[BlockMeta],
    *,
    bucket_us: int | None,
    max_blocks: int = 12,
    barriers: Sequence[int] = (),
    separate_slots: bool = False,
    most_bytes: int | None = None,
) -> tuple[Group, ...]:
    """Return groups of block names, each to be merged into one block.

    Parameters
    ----------
    bucket_us
        Length of a time bucket. Blocks of different buckets stay apart, so that old rows
        still leave with whole blocks. None, for unbounded windows: one bucket.
    max_blocks
        A state with no more blocks than this is left alone; or what a slot has of it, where they are apart.
    barriers
        Batches at which running protocols started: rows from before and after stay apart.
    separate_slots
        Merge only blocks of the same slot: for many slots, or sites that share nothing.
    most_bytes
        Of all blocks of a group: merging holds their rows several times.
    """
    if bucket_us is not None and bucket_us <= 0:
        raise ValueError(f"bucket_us must be positive, not {bucket_us}")
    fences = sorted(barriers)
    plan = []
    for together in _apart(blocks, separate_slots=separate_slots):
        if len({_origin(block) for block in together}) <= max_blocks:
            continue
        groups = defaultdict(list)
        for block in together:
            groups[merge_group_of(block, bucket_us, fences)].append(block)
        newest = max(bucket for bucket, *_ in groups)
        choices = (
            _choose(group, full=bucket < newest, most_bytes=most_bytes)
            for (bucket, *_), group in groups.items()
        )
        plan += [merge for merge in choices if merge]
    return tuple(plan)


def _apart(blocks: Iterable[BlockMeta], *, separate_slots: bool) -> Iterable[list[BlockMeta]]:
    """Blocks by state, and by slot where slots are separate."""
    found: dict[tuple[str, int], list[BlockMeta]] = defaultdict(list)
    for block in blocks:
        found[block.state, block.slot if separate_slots else 0].append(block)
    return found.values()


def merge_group_of(block: BlockMeta, bucket_us: int | None, fences: Sequence[int]) -> tuple[int, ...]:
    """Return what two blocks must have in common to be merged; `fences` in ascending order."""
    bucket = 0 if bucket_us is None else block.max_ts // bucket_us
    sides = bisect_right(fences, block.batch), bisect_right(fences, block.last_batch)
    return (bucket, *sides)


def _choose(group: Sequence[BlockMeta], *, full: bool, most_bytes: int | None = None) -> Group | None:
    """Return the longest run of smallest blocks that is worth merging.

    Hardly a row comes into a bucket that is `full`: what is left of it is merged for once and all, unless
    it is next to nothing.
    """
    fan_in, growth = (2, FULL_GROWTH) if full else (FAN_IN, GROWTH)
    wholes = defaultdict(list)
    for block in group:
        wholes[_origin(block)].append(block)
    rows_of = {origin: sum(block.rows for block in pieces) for origin, pieces in wholes.items()}
    ascending = sorted(wholes, key=lambda origin: (rows_of[origin], origin))
    best, total, size = 0, 0, 0
    for count, origin in enumerate(ascending, start=1):
        total += rows_of[origin]
        size += sum(block.bytes for block in wholes[origin])
        if most_bytes is not None and size > most_bytes:
            break
        if count >= fan_in and (total >= growth * rows_of[origin] or total < TINY_ROWS):
            best = count
    return (
        tuple(name for origin in ascending[:best] for name in sorted(b.name for b in wholes[origin])) or None
    )


def _origin(block: BlockMeta) -> tuple[int, int, int, str]:
    """What the pieces of one merger have in common: where and of which batches it was made."""
    return block.batch, block.last_batch, block.slot, block.name if block.batch == block.last_batch else ""

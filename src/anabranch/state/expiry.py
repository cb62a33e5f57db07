"""Expiry: when rows of a state can no longer be part of a result.

A result needs `max(ts) - ts_i <= W_i` for every reference i, and a future row of reference j has
`ts >= wm_j`. So a row r of i is out of reach once every other reference has moved past its window::

    ts_r ├──── W_i ────┤
                         ▲ min over j ≠ i of wm_j        r may go

The minimum is over *all* other references of the query, not only the sibling in today's plan: a
later plan may join r with another one first. Plan migration paper, section 2; docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.state.block import BlockMeta

# Beyond every int64 time, so that plain comparisons need no special case.
KEEP_ALL = -(2**63)
DROP_ALL = 2**63

Watermarks = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class WindowRef:
    """One FROM item of a query: a stream and its window; None is unbounded."""

    stream: str
    window_us: int | None


@dataclass(frozen=True, slots=True)
class LeafUse:
    """A query that reads a leaf state as its reference number `position`."""

    refs: tuple[WindowRef, ...]
    position: int


def leaf_horizon(uses: Iterable[LeafUse], watermarks: Watermarks) -> int:
    """Return the time before which no row of a shared leaf state is needed by any of its uses.

    >>> orders, payments = WindowRef("orders", 60), WindowRef("payments", 10)
    >>> use = LeafUse((orders, payments), position=0)
    >>> leaf_horizon([use], {"orders": 500, "payments": 400})  # rows with ts + 60 < 400
    340
    """
    return min((_use_horizon(use, watermarks) for use in uses), default=DROP_ALL)


def intermediate_horizon(refs: Sequence[WindowRef], inside: Collection[int], watermarks: Watermarks) -> int:
    """Return the deadline before which no row of an intermediate result is needed.

    Parameters
    ----------
    refs
        All references of the query.
    inside
        Positions of those that the intermediate result already joins.
    """
    outside = (ref for position, ref in enumerate(refs) if position not in inside)
    return _least_watermark(outside, watermarks)


def may_drop(meta: BlockMeta, horizon: int) -> bool:
    """Tell whether all rows of a block are before its state's horizon.

    Leaf blocks carry their largest time as deadline, so one comparison serves both kinds.
    """
    return meta.max_deadline < horizon


def held_back(watermarks: Watermarks, oldest_spooled: Mapping[str, int]) -> dict[str, int | None]:
    """Return the watermarks with each stream's oldest spooled row as an upper bound.

    A spooled row was accepted on arrival and will still join, however late that is.
    """
    held = dict(watermarks)
    for stream, oldest in oldest_spooled.items():
        watermark = held.get(stream)
        held[stream] = oldest if watermark is None else min(watermark, oldest)
    return held


def _use_horizon(use: LeafUse, watermarks: Watermarks) -> int:
    others = (ref for position, ref in enumerate(use.refs) if position != use.position)
    least = _least_watermark(others, watermarks)
    window = use.refs[use.position].window_us
    if least in (KEEP_ALL, DROP_ALL):
        return least
    return KEEP_ALL if window is None else least - window


def _least_watermark(refs: Iterable[WindowRef], watermarks: Watermarks) -> int:
    least = DROP_ALL  # without another reference there is nothing to wait for
    for ref in refs:
        watermark = watermarks.get(ref.stream)
        if watermark is None:
            return KEEP_ALL  # a stream never seen may still bring any time
        least = min(least, watermark)
    return least

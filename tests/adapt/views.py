"""Round views and batches for tests, from as few numbers as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.balance.round_view import RoundView


def view_of(
    sites: Sequence[Sequence[int]],
    *,
    utilisation: Sequence[float] | None = None,
    slowness: Sequence[float] | None = None,
    state_bytes: Sequence[int] | None = None,
    on_disk: Sequence[int] = (),
    memory: Sequence[float] | None = None,
    pinned: Sequence[int] = (),
    barred: Mapping[int, frozenset[int]] | None = None,
) -> RoundView:
    """A view of sites given by the rows of their partitions, numbered in order; a row is a unit of work."""
    rows = np.array([r for site in sites for r in site], dtype=np.int64)
    site_of = np.array([s for s, site in enumerate(sites) for _ in site], dtype=np.int64)
    load = np.array([float(sum(site)) for site in sites])
    flags = np.zeros(len(rows), np.bool_)
    held, fixed = flags.copy(), flags.copy()
    held[list(on_disk)] = True
    fixed[list(pinned)] = True
    return RoundView(
        site_of=site_of,
        utilisation=load / max(load.max(), 1.0) if utilisation is None else np.array(utilisation, float),
        rows=rows,
        work_s=rows.astype(float),
        slowness=np.ones(len(sites)) if slowness is None else np.array(slowness, float),
        fixed_s=0.0,
        state_bytes=np.array(rows if state_bytes is None else state_bytes, dtype=np.int64),
        on_disk=held,
        memory_bytes=np.full(len(sites), np.inf) if memory is None else np.array(memory, float),
        pinned=fixed,
        barred=barred or {},
    )


def moves_of(proposals: Sequence[object]) -> list[Move]:
    return [p.move for p in proposals]  # type: ignore[attr-defined]

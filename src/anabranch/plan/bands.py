"""Bounds of differences between the two sides of a join, out of what its predicates say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.plan.logical import Band, Distance, Residual


def split_bands(
    residuals: Sequence[Residual], left: Sequence[str], right: Sequence[str]
) -> tuple[tuple[Band, ...], tuple[str, ...]]:
    """One band for each pair of columns of the two sides, and the SQL of all other predicates."""
    found: dict[tuple[str, str, str], Band] = {}
    texts: dict[tuple[str, str, str], list[str]] = {}
    others: list[str] = []
    for residual in residuals:
        band = None if residual.band is None else _turned_to(residual.band, left, right)
        if band is None:
            others.append(residual.sql)
            continue
        pair = (band.left, band.right, band.rounding)
        found[pair] = both(found[pair], band) if pair in found else band
        texts.setdefault(pair, []).append(residual.sql)
    bands = []
    for key, band in found.items():
        if band.rounding and band.high is None:
            # A difference that is NaN is larger than anything: what satisfies this is no one interval.
            others += texts[key]
        else:
            bands.append(band)
    return tuple(bands), tuple(others)


def split_distance(
    residuals: Sequence[Residual], left: Sequence[str]
) -> tuple[Distance | None, list[Residual]]:
    """A distance, from the left side to the right, and all other predicates."""
    for i, residual in enumerate(residuals):
        if residual.distance is not None:
            ours = residual.distance.left[0].rsplit(".", 1)[0] in left
            found = residual.distance if ours else residual.distance.turned()
            return found, [*residuals[:i], *residuals[i + 1 :]]
    return None, list(residuals)


def both(first: Band, second: Band) -> Band:
    """Bounds of the same difference, together.

    >>> both(Band("a.0", "b.0", low=1), Band("a.0", "b.0", low=2, high=5))
    Band(left='a.0', right='b.0', low=2, high=5, rounding='')
    """
    lows = [band.low for band in (first, second) if band.low is not None]
    highs = [band.high for band in (first, second) if band.high is not None]
    return replace(first, low=max(lows, default=None), high=min(highs, default=None))


def _turned_to(band: Band, left: Sequence[str], right: Sequence[str]) -> Band | None:
    """The band from left to right; None where it cannot be decided between these sides alone."""
    ours, theirs = (column.rsplit(".", 1)[0] for column in (band.left, band.right))
    if ours in left and theirs in right:
        return band
    # Turning a difference of floating-point numbers would turn its NaN, too: unless that is left out anyway.
    if ours in right and theirs in left and not (band.rounding and band.high is None):
        return band.turned()
    return None

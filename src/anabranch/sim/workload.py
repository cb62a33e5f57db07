"""How rows spread over partitions, as probabilities."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.statistics import Floats


def uniform(partitions: int) -> Floats:
    """Every partition alike."""
    return np.full(partitions, 1.0 / partitions)


def self_similar(partitions: int, *, groups: int, hot: float = 0.8, seed: int = 0) -> Floats:
    """The 80/20 rule at every scale: a fifth of the groups gets four fifths of the rows, and so on within.

    Groups fall on partitions as by a hash.

    >>> bool(0.25 < self_similar(2048, groups=16384).max() < 0.30)
    True
    """
    power = np.log(hot) / np.log(1 - hot)
    edges = (np.arange(groups + 1) / groups) ** power
    return _hashed(np.diff(edges), partitions, seed)


def zipf(partitions: int, *, keys: int, exponent: float = 1.2, seed: int = 0) -> Floats:
    """Key k with weight k^-exponent; keys fall on partitions as by a hash."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return _hashed(weights / weights.sum(), partitions, seed)


def _hashed(weights: Floats, partitions: int, seed: int) -> Floats:
    # Equal numbers of groups per partition, as the paper has them, in random order.
    places = np.random.default_rng(seed).permutation(len(weights)) % partitions
    shares = np.bincount(places, weights=weights, minlength=partitions)
    return np.asarray(shares / shares.sum(), dtype=np.float64)

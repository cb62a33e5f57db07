"""Requests for load (COSMOS, algorithm 6.2): a site with little to do asks its busiest partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A site asks another for part of its workload."""

    receiver: int
    sender: int
    amount: float


def average_workload(workload: float, partners: Mapping[int, float]) -> float:
    """Of a site and its partners."""
    return (workload + sum(partners.values())) / (1 + len(partners))


def load_request(
    site: int, workload: float, partners: Mapping[int, float], *, kappa: float
) -> LoadRequest | None:
    """What a site asks for at the start of its round; None if it has about as much to do as its partners.

    >>> load_request(0, 0.2, {1: 0.4, 2: 0.9}, kappa=1.2)
    LoadRequest(receiver=0, sender=2, amount=0.35)
    """
    if not partners:
        return None
    if kappa * workload >= average_workload(workload, partners):
        return None
    busiest = max(partners, key=lambda other: (partners[other], -other))
    return LoadRequest(site, busiest, (partners[busiest] - workload) / 2)

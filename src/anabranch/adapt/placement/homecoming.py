"""Homecoming: a site with little to do calls its own fragments back. Our addition to COSMOS, section 6.2.

Algorithm 6.2 asks the busiest partner, which need not have anything of ours. So what a site gave away while
it was busy stays away when its load falls. But the site knows where its fragments are: it sends them their
stream. At the start of its round it first calls them home, as long as it then has no more to do than its
partners on average, and no more than the site that gives them. Algorithm 6.2 asks for what is still missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Away:
    """A fragment that another site works on."""

    fragment: int
    load: float
    stream: int
    site: int


@dataclass(frozen=True, slots=True)
class Host:
    """A site with fragments of another: its workload, and how much of it may still leave in this round."""

    workload: float
    gives: float

    def without(self, load: float) -> Host:
        return Host(self.workload - load, self.gives - load)


def called_home(
    away: Iterable[Away], hosts: Mapping[int, Host], *, workload: float, average: float
) -> Iterator[Away]:
    """Fragments that a site calls home.

    A stream is sent once to each site that reads it, so that one fragment left there costs as much as all.
    So those of one stream and site come one after the other, first where they are the least load together.

    Parameters
    ----------
    workload, average
        Of the site, and of it and its partners.

    Examples
    --------
    >>> away = [Away(0, 0.2, 7, site=1), Away(1, 0.1, 7, site=1), Away(2, 0.1, 7, site=2)]
    >>> hosts = {1: Host(0.9, gives=0.4), 2: Host(0.6, gives=0.3)}
    >>> [a.fragment for a in called_home(away, hosts, workload=0.2, average=0.5)]
    [2, 1]
    """
    together: defaultdict[tuple[int, int], list[Away]] = defaultdict(list)
    for one in away:
        together[one.stream, one.site].append(one)
    left = dict(hosts)
    for lot in sorted(together.values(), key=_least_first):
        for one in sorted(lot, key=lambda a: (a.load, a.fragment)):
            after, host = workload + one.load, left[one.site].without(one.load)
            if host.gives >= 0 and after <= min(average, host.workload):
                workload, left[one.site] = after, host
                yield one


def _least_first(lot: list[Away]) -> tuple[float, int, int]:
    return sum(a.load for a in lot), lot[0].stream, lot[0].site

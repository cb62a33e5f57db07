"""What routers send beside the first copies: equations 2 and 4, and what 2 becomes with one copy per site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamRate:
    """A reference of a join: rows per second, and its window in seconds."""

    rate: float
    window_s: float


def copies_per_second(streams: Mapping[str, StreamRate], master: str, length_s: float) -> float:
    """O_ATR: rows that are sent again per second (Gu, Yu, Wang, equation 2).

    >>> streams = {"a": StreamRate(100, 6), "b": StreamRate(10, 2)}
    >>> copies_per_second(streams, "a", 4.0), copies_per_second(streams, "b", 4.0)
    (20.0, 200.0)
    """
    reach = streams[master].window_s
    return sum(
        (stream.window_s + reach) / length_s * stream.rate
        for alias, stream in streams.items()
        if alias != master
    )


def copies_with_sites(streams: Mapping[str, StreamRate], master: str, length_s: float, sites: int) -> float:
    """The same where a site gets one copy however many of its segments a row may meet.

    Where segments are longer than what rows reach, and neighbours are at different sites, this is equation 2.
    """
    reach = streams[master].window_s
    return sum(
        min(sites - 1.0, (stream.window_s + reach) / length_s) * stream.rate
        for alias, stream in streams.items()
        if alias != master
    )


def sent_per_second(rate: float, cover: float, results: float, apart: float) -> float:
    """O_CTR of one reference: copies of its rows, and joined rows that travel (equation 4).

    Parameters
    ----------
    cover
        Places that get its rows, |V1|.
    results
        Joined rows that go on for each of its rows, over all hops.
    apart
        Places that each of them has to go to, beside the one where it was made; in the paper |V'|, which
        leaves out places that only other rows were made at.

    >>> sent_per_second(100.0, 3, 0.5, 2)
    300.0
    """
    return rate * (cover - 1 + results * apart)


def best_master(streams: Mapping[str, StreamRate]) -> str:
    """The master with the least to be copied; the segment length does not matter for that."""
    return min(
        streams, key=lambda alias: (copies_per_second(streams, alias, 1.0), list(streams).index(alias))
    )

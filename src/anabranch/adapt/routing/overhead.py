"""What routers send beside the first copies: equations 2 and 4, and what 2 becomes with one copy per site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def copies_in_turns(
    streams: Mapping[str, StreamRate], master: str, length_s: float, cycle: Sequence[int]
) -> float:
    """The same where a partition gets one copy, however many of its segments a row may meet.

    Where segments are longer than what rows reach, and neighbours have different partitions, this is
    equation 2.

    Parameters
    ----------
    cycle
        The partitions that take turns.
    """
    reach = streams[master].window_s
    return sum(
        (places_in_reach((stream.window_s + reach) / length_s, cycle) - 1) * stream.rate
        for alias, stream in streams.items()
        if alias != master
    )


def places_in_reach(segments: float, cycle: Sequence[int]) -> float:
    """Different partitions, on average, of the segments that lie in a stretch of so many segments' length.

    A partition is met for the first time by as many stretches as there are segments since its turn before.

    >>> places_in_reach(0.5, (1, 2, 3)), places_in_reach(9, (1, 2, 3)), places_in_reach(1, (1, 1, 2))
    (1.5, 3.0, 1.6666666666666667)
    """
    last = {partition: turn - len(cycle) for turn, partition in enumerate(cycle)}
    total = 0.0
    for turn, partition in enumerate(cycle):
        total += min(segments + 1, turn - last[partition])
        last[partition] = turn
    return total / len(cycle)


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

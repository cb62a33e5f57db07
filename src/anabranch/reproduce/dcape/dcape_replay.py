"""Measured busy times against an arrival schedule: results and tuples in the system over time.

Arithmetic on what the engine measured, with no logic of its own. A cluster with one machine per site gets
a batch every `interval_s`, begins it when it is there and the batch before is done, and has it done
when its busiest site is:

    arrives   ├─ 0 ─┼─ 1 ─┼─ 2 ─┼─ 3 ─┤
    works           ├──── 0 ────┼──── 1 ────┼─ …     falls behind: 2 and 3 are in the queue
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.reproduce.dcape.dcape_run import Measured

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Replayed:
    """At the end of every interval of arrivals.

    Attributes
    ----------
    results
        Accumulated throughput.
    apart
        The same if machines did not wait for each other at the end of a batch, as in the paper.
    tuples
        Rows that have arrived and are not processed, and rows in states.
    """

    times: Floats
    results: Floats
    apart: Floats
    tuples: Floats


def replay(measured: Measured, interval_s: float) -> Replayed:
    """What a cluster would have done that gets a batch every `interval_s`."""
    busy, results = np.array(measured.busy_s), np.array(measured.results, dtype=np.float64)
    times: Floats = interval_s * np.arange(1.0, len(busy) + 1)
    done = finish_times(busy.max(axis=1), times)
    made = np.array([results.sum(axis=1)[done <= t].sum() for t in times])
    apart = np.zeros(len(times))
    for site in range(busy.shape[1]):
        ready = finish_times(busy[:, site], times)
        apart += np.array([results[ready <= t, site].sum() for t in times])
    rows = np.array(measured.rows, dtype=np.float64)
    state = np.array([0, *measured.state_rows], dtype=np.float64)
    tuples = np.array([rows[(times <= t) & (done > t)].sum() + state[(done <= t).sum()] for t in times])
    return Replayed(times, made, apart, tuples)


def finish_times(work_s: Sequence[float] | Floats, arrived_s: Sequence[float] | Floats) -> Floats:
    """When each batch is done by a machine that takes one after the other.

    >>> finish_times([3.0, 1.0, 1.0], [1.0, 2.0, 9.0]).tolist()
    [4.0, 5.0, 10.0]
    """
    done, now = [], 0.0
    for work, arrived in zip(work_s, arrived_s, strict=True):
        now = max(now, float(arrived)) + float(work)
        done.append(now)
    return np.array(done)

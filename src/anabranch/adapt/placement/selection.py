"""Which fragments a site gives away (COSMOS, section 6.2.5).

Data-flow aware: first fragments that go home, then other guests, at last its own; inside each of these by
where their neighbours are, and then by load density, the load that moves for each byte of state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from anabranch.adapt.placement.load_request import LoadRequest

MOST_EXPORTED = 0.5
"""Share of its workload that a site gives away in one round at most."""


class Selection(StrEnum):
    """How fragments are chosen."""

    DATA_FLOW_AWARE = "data-flow aware"
    INTERMEDIATE = "intermediate"
    """Guests before natives, by load density."""
    ELEMENTARY = "elementary"
    """By load density alone."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A fragment at the site that is asked for load."""

    fragment: int
    load: float
    state_bytes: float
    native: int
    """The site that its stream comes in at."""
    neighbours: frozenset[int]
    """Sites of its up- and downstream neighbours."""

    @property
    def density(self) -> float:
        return self.load / max(self.state_bytes, 1.0)


def select(
    requests: Iterable[LoadRequest],
    fragments: Sequence[Placed],
    *,
    workload: float,
    exported: float = 0.0,
    how: Selection = Selection.DATA_FLOW_AWARE,
) -> Iterator[tuple[Placed, int]]:
    """Fragments to move, each with the site that gets it.

    Parameters
    ----------
    requests
        What others ask of one site; the largest is served first.
    workload, exported
        Of that site at the start of its round, and what has left it since.
    """
    left = {placed.fragment: placed for placed in fragments}
    for request in sorted(requests, key=lambda r: (-r.amount, r.receiver)):
        wanted = request.amount
        for placed in sorted(left.values(), key=lambda p: _priority(p, request, how)):
            if placed.load > wanted or exported + placed.load > MOST_EXPORTED * workload:
                continue
            wanted -= placed.load
            exported += placed.load
            del left[placed.fragment]
            yield placed, request.receiver


def _priority(placed: Placed, request: LoadRequest, how: Selection) -> tuple[float, ...]:
    """What goes first has the lowest."""
    last = -placed.density, placed.fragment
    if how is Selection.ELEMENTARY:
        return last
    foreign = placed.native != request.sender
    if how is Selection.INTERMEDIATE:
        return (0 if foreign else 1, *last)
    goes_home = foreign and placed.native == request.receiver
    at_receiver, at_sender = (site in placed.neighbours for site in (request.receiver, request.sender))
    # Figure 6.4: only at the receiver, at both, at neither, only at the sender.
    flow = {(True, False): 0, (True, True): 1, (False, False): 2, (False, True): 3}[at_receiver, at_sender]
    return (0 if goes_home else 1 if foreign else 2, flow, *last)

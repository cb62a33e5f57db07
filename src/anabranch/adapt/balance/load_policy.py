"""Flux's load policy (section 5.3): sites paired from both ends, one partition per pair and round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move, PolicyName, Proposal
from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.measures.statistics import sum_by_site

ROUNDED = 1 - 1e-9
"""Two sites that only exchange their loads are not more alike, whatever rounding says."""


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """Equalise the utilisation of the sites with few moves.

    Sites are sorted by utilisation; the busiest is paired with the idlest, the second with the second
    last, and so on. A pair is considered when the donor is above the mean, the receiver at most
    `th_util` busy, and their ratio at least `th_imb`; the first pair that fails ends the round. Of the
    donor's partitions, by falling row count, the first moves that makes the two more alike and does not
    overload the receiver.

    Parameters
    ----------
    within_memory
        Only move to a site that has memory left for the partition (the hybrid policy's limit, section 6.4).
    """

    within_memory: bool = False

    def propose(self, view: RoundView, thresholds: Thresholds) -> tuple[Proposal, ...]:
        order = np.argsort(-view.utilisation, kind="stable")
        mean = float(view.utilisation.mean())
        processed = sum_by_site(view.rows, view.site_of, view.sites)
        room = view.excess_of_sites()
        proposals = []
        for donor, receiver in zip(order[: len(order) // 2], order[::-1], strict=False):
            if not _worth_a_look(view, thresholds, int(donor), int(receiver), mean):
                break
            limit = float(room[receiver]) if self.within_memory else np.inf
            found = _first_that_helps(view, int(donor), int(receiver), processed, limit)
            if found is not None:
                proposals.append(found)
        return tuple(proposals)


def _worth_a_look(view: RoundView, thresholds: Thresholds, donor: int, receiver: int, mean: float) -> bool:
    busy, idle = float(view.utilisation[donor]), float(view.utilisation[receiver])
    return (
        busy >= mean
        and idle <= thresholds.utilisation
        and busy >= idle * thresholds.imbalance
        and busy > idle
    )


def _first_that_helps(
    view: RoundView, donor: int, receiver: int, processed: np.ndarray, room: float
) -> Proposal | None:
    busy, idle = float(view.utilisation[donor]), float(view.utilisation[receiver])
    own = view.partitions_of(donor)
    for partition in own[np.argsort(-view.rows[own], kind="stable")]:
        rows = int(view.rows[partition])
        if rows == 0:
            break
        busy_after = busy * (1 - rows / processed[donor])
        idle_after = _receiver_after(idle, rows, float(processed[receiver]), busy, float(processed[donor]))
        helps = abs(busy_after - idle_after) < ROUNDED * (busy - idle) and idle_after <= 1.0
        size = int(view.state_bytes[partition])
        if helps and size <= room and view.may_move(int(partition), receiver):
            return Proposal(
                Move(int(partition), donor, receiver),
                PolicyName.LOAD,
                f"site {donor} is {busy:.0%} busy, site {receiver} {idle:.0%}; "
                f"afterwards {busy_after:.0%} and {idle_after:.0%}",
                expected=max(0.0, 1 - max(busy_after, idle_after) / busy),
            )
    return None


def _receiver_after(idle: float, rows: int, received: float, busy: float, donated: float) -> float:
    """U'_r = U_r (1 + N_p / T_r). A receiver without rows shows no rate of its own: the donor's stands in."""
    if received > 0 and idle > 0:
        return idle * (1 + rows / received)
    return idle + busy * rows / donated

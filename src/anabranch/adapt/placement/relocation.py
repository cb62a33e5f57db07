"""Moving a fragment (COSMOS, section 6.2.6): redirect, drain, ship, install, resume."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relocation:
    """A fragment under way.

    Attributes
    ----------
    resume_after
        Timestamp of the last row that the sender has processed: the receiver goes on with the next, and no
        row is processed twice or not at all.
    done_at
        When its state is installed at the receiver.
    """

    fragment: int
    sender: int
    receiver: int
    resume_after: float
    done_at: float

    def waits(self, now: float, window_s: float = 0.0) -> float:
        """How long a row that comes now waits for the fragment, or on average one that comes in a window."""
        left = max(self.done_at - now, 0.0)
        if left >= window_s:
            return left - window_s / 2
        return left * left / (2 * window_s)

    def takes(self, timestamp: float) -> bool:
        """Whether a row is the receiver's to process."""
        return timestamp > self.resume_after


def relocate(
    fragment: int,
    *,
    sender: int,
    receiver: int,
    now: float,
    drain_s: float,
    state_bytes: float,
    bytes_per_s: float,
) -> Relocation:
    """Begin to move a fragment: rows go to the receiver from now on, its state follows."""
    return Relocation(fragment, sender, receiver, now, now + drain_s + state_bytes / bytes_per_s)

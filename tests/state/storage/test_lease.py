from __future__ import annotations

import pytest

from anabranch.state.errors import CheckpointInUseError
from anabranch.state.storage.lease import LEASE_S, Lease
from anabranch.state.storage.object_store import MemoryStore


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_lease_that_nobody_renews_ends_and_can_be_taken(clock: Clock) -> None:
    store = MemoryStore()
    killed = Lease(store, clock)
    killed.sign(7)
    clock.now_s += 0.9 * LEASE_S
    with pytest.raises(CheckpointInUseError, match=r"writer epoch 7\).* its lease ends in 3 seconds"):
        Lease(store, clock)
    clock.now_s += 0.2 * LEASE_S
    heir = Lease(store, clock)
    assert not killed.renew()
    killed.release()  # takes nothing from the heir
    assert heir.renew()
    heir.release()


def test_a_lease_that_is_renewed_lasts(clock: Clock) -> None:
    store = MemoryStore()
    lease = Lease(store, clock)
    for _ in range(20):
        clock.now_s += 0.6 * LEASE_S
        assert lease.renew()
        with pytest.raises(CheckpointInUseError):
            Lease(store, clock)
    assert len(store.list("leases/")) == 1
    lease.release()


def test_a_released_lease_is_free_at_once_and_cannot_be_renewed(clock: Clock) -> None:
    store = MemoryStore()
    lease = Lease(store, clock)
    lease.release()
    lease.release()
    assert not lease.renew()
    Lease(store, clock).release()


def test_of_two_that_find_it_free_one_has_it(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(Lease, "_free_number", lambda _: 0)
    winner = Lease(store, clock)
    with pytest.raises(CheckpointInUseError, match="just starting"):
        Lease(store, clock)
    winner.release()


def test_a_lease_that_its_holder_renews_while_we_look_is_held(clock: Clock) -> None:
    holder: list[Lease] = []

    class Renewing(MemoryStore):
        """Lets the holder renew between the listing and the reading."""

        def get(self, key: str) -> bytes:
            if holder:
                holder.pop().renew()
            return super().get(key)

    store = Renewing()
    lease = Lease(store, clock)
    holder.append(lease)
    with pytest.raises(CheckpointInUseError, match="process"):
        Lease(store, clock)
    lease.release()


def test_a_thread_renews_it_until_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    lease = Lease(store)
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 3

    monkeypatch.setattr(lease._ended, "wait", wait)
    before = store.list("leases/")[0].name
    lease._keep_renewing()
    assert waits == [LEASE_S / 3] * 4
    assert int(store.list("leases/")[0].name[-4:]) == int(before[-4:]) + 3
    lease.release()

"""Rows that wait enter although nothing new comes."""

from __future__ import annotations

import threading

from anabranch.engine.step.times.idle_steps import IdleSteps

LONG_S = 30.0


def unexpected(error: BaseException) -> None:
    raise error


def always() -> bool:
    return True


def test_steps_are_taken_until_nothing_waits() -> None:
    left, done = [3], threading.Event()
    turn = threading.Lock()

    def step() -> None:
        assert turn.locked()
        left[0] -= 1
        if not left[0]:
            done.set()

    idle = IdleSteps(lambda: left[0] > 0, step, alive=always, failed=unexpected, turn=turn, pause_s=0.001)
    assert done.wait(LONG_S)
    idle.stop()
    assert left == [0]
    assert not turn.locked()


def test_no_step_is_taken_while_a_batch_runs() -> None:
    turn, asked, stepped = threading.Lock(), threading.Event(), threading.Event()

    def waits() -> bool:
        asked.set()
        return True

    with turn:
        idle = IdleSteps(waits, stepped.set, alive=always, failed=unexpected, turn=turn, pause_s=0.001)
        for _ in range(3):
            asked.clear()
            assert asked.wait(LONG_S)
        assert not stepped.is_set()
    assert stepped.wait(LONG_S)
    idle.stop()


def test_a_step_that_fails_is_told_once_and_lets_go_of_the_turn() -> None:
    turn, told, told_once = threading.Lock(), [], threading.Event()

    def step() -> None:
        raise OSError("disk full")

    def failed(error: BaseException) -> None:
        assert not turn.locked()
        told.append(str(error))
        told_once.set()

    idle = IdleSteps(lambda: True, step, alive=always, failed=failed, turn=turn, pause_s=0.001)
    assert told_once.wait(LONG_S)
    idle.stop()
    assert told == ["disk full"]


def test_no_step_is_taken_once_the_query_has_ended() -> None:
    asked, stepped = threading.Event(), threading.Event()

    def alive() -> bool:
        asked.set()
        return False

    idle = IdleSteps(
        always, stepped.set, alive=alive, failed=unexpected, turn=threading.Lock(), pause_s=0.001
    )
    assert asked.wait(LONG_S)
    idle.stop()
    assert not stepped.is_set()

"""Where a session stands: nothing before the first step, then what the last one has left."""

from __future__ import annotations

from anabranch.engine.settings import Settings
from anabranch.engine.step.standing import Standing
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import rows, running


def test_a_step_starts_from_what_the_last_one_left() -> None:
    with running(STREAMS, [joined("a", "b")], Settings(sites=2, slots=1)) as run:
        first: Standing = run.loop._standing
        assert (first.manifest, first.blocks, first.lists) == (None, (), ())
        summary = run.batch({"a": rows((1, 1), (2, 2)), "b": rows((1, 5))})
        then = run.loop._standing
    assert then.manifest is summary.manifest
    assert then.blocks == summary.manifest.blocks != ()
    assert then.parent != first.parent
    assert then.began_s >= first.began_s


def test_plans_that_the_constants_have_are_not_told_again() -> None:
    with running(STREAMS, [joined("a", "b")], Settings(sites=2, slots=1)) as run:
        standing = run.loop._standing
    assert "q" in standing.decisions.tracks.plans
    assert "q" not in standing.untold(standing.decisions.tracks).plans

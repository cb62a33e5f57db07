"""Progress of a step says what its manifest and its slots say."""

from __future__ import annotations

from anabranch.engine.settings import Settings
from anabranch.engine.step.progress import progress_of
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import rows, running


def test_rows_results_and_state_are_those_of_the_step() -> None:
    with running(STREAMS, [joined("a", "b")], Settings(sites=2, slots=1)) as run:
        run.batch({"a": rows((1, 0), (2, 1)), "b": rows()})
        summary = run.batch({"a": rows((None, 2)), "b": rows((1, 2), (2, 2), (3, 2))})
    told = progress_of(summary, rows_before=2)
    assert (told.batch, told.step, told.input_rows) == (1, 0, 4)
    assert told.queries["q"].output_rows == 2
    assert told.streams["b"].accepted == 3
    assert told.state.rows == sum(block.rows for block in summary.manifest.blocks) > 0
    assert sum(site.rows for site in told.sites) == sum(s.rows for r in summary.reports for s in r.sites)
    assert told.duration_ms["triggerExecution"] >= told.duration_ms["execute"] > 0
    assert not told.replayed


def test_a_replayed_batch_is_told_as_such_and_brings_no_rows() -> None:
    with running(STREAMS, [joined("a", "b")]) as run:
        run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
        summary = run.batch({"a": rows((1, 0)), "b": rows((1, 0))}, number=0)
    told = progress_of(summary, rows_before=2)
    assert told.replayed
    assert told.input_rows == 0
    assert told.rows_per_second == 0.0

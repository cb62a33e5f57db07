"""The paper's purge rule ends a parallel track later than ours, and never changes a result."""

from __future__ import annotations

from functools import partial

from anabranch.adapt.events import EventKind
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task.sites.lemma_purge import LemmaPurge
from anabranch.engine.task.sites.site_work import is_over
from anabranch.state import PosixStorage
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.support.oracle_check import check_rows

BATCHES = steady_batches(14, keys=6, per_batch=20)
QUERY = joined("a", "b", "c")


def batches_of_the_track(*, lemma: bool) -> int:
    """Batches in which two plans ran side by side."""
    with scratch() as root:
        storage = PosixStorage(root)
        rule: IsOver = LemmaPurge(storage) if lemma else partial(is_over)
        settings = Settings(sites=1, slots=1, migration="parallel_track")
        run = LocalRun(root, STREAMS, [QUERY], settings=settings, storage=storage, is_over=rule)
        both = 0
        for number, batch in enumerate(BATCHES):
            if number == 4:
                run.loop.migrate("q", "((b c) a)", strategy="parallel_track")
            summary = run.batch(batch)
            both += bool(run.loop.tracks.ending)
            assert EventKind.QUERY_FAILED not in {e.kind for e in summary.events}
        found = run.results("q")
        run.close()
    models = accepted_rows(STREAMS, BATCHES)
    rows = {name: model.rows_for(QUERY) for name, model in models.items()}
    check_rows(found, expected_rows(QUERY, STREAMS, rows), what=f"lemma {lemma}")
    return both


def test_a_track_lasts_longer_under_the_rule_of_the_paper() -> None:
    ours, theirs = batches_of_the_track(lemma=False), batches_of_the_track(lemma=True)
    assert 0 < ours < theirs < len(BATCHES) - 4

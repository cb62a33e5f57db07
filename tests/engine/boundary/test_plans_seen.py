"""What is told of plans comes from the manifest alone: what runs, what else there is, at which price."""

from __future__ import annotations

from anabranch.engine.boundary.plans_seen import plans_seen
from anabranch.engine.settings import Settings
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.engine.nasty_runs import running


def test_joins_of_three_are_told_with_the_plan_that_runs_and_its_rivals() -> None:
    queries = [joined("a", "b", "c"), joined("a", "b", name="two")]
    with running(STREAMS, queries, Settings(sites=2, slots=1, migration="off")) as run:
        for batch in steady_batches(12, keys=4, per_batch=60):
            run.batch(batch)
        manifest, running_plans = run.loop.manifest, run.loop.tracks.plans["q"]
    assert manifest is not None
    (told,) = plans_seen(manifest)  # a join of two has one plan only
    assert (told.query, told.batch) == ("q", 11)
    assert [site.plan for site in told.sites] == list(running_plans)
    for site in told.sites:
        assert site.plan in site.predicted
        assert len(site.predicted) >= 3
        assert list(site.predicted.values()) == sorted(site.predicted.values())
    text = told.to_text()
    assert text.startswith("query q: plans as last seen, after batch 11")
    assert "runs at 0, 1" in text
    assert [site["plan"] for site in told.to_json()["sites"]] == list(running_plans)


def test_before_anything_was_seen_nothing_is_told() -> None:
    with running(STREAMS, [joined("a", "b", "c")]) as run:
        summary = run.batch(steady_batches(1)[0])
    assert plans_seen(summary.manifest) == ()

"""A session that is restarted half-way, drained now and then, and compared with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import mock

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.plan.logical import Query, Stream
from anabranch.state import compaction
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows


def check_restarted(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    batches: Sequence[Batch],
    *,
    settings: Settings,
    decider: Decider | None,
    seed: int,
    watch: Callable[[LocalRun], None] = lambda _: None,
    may_end: bool = False,
) -> int:
    """Run all batches, whatever the decider changes between them; returns the number of results.

    Parameters
    ----------
    watch
        Called after every batch.
    may_end
        Whether a quota may end queries, which are not compared then.
    """
    with scratch() as root, mock.patch.object(compaction, "FAN_IN", 2):
        run = LocalRun(root, streams, queries, settings=settings, decider=decider)
        sinks = run.sinks
        for number, batch in enumerate(batches):
            if number == len(batches) // 2:
                run.close()
                run = LocalRun(root, streams, queries, sinks=sinks, settings=settings, decider=decider)
            run.batch(batch)
            watch(run)
            if number % 2:
                run.drain()
        run.end_of_input()
        assert may_end or not run.loop.failures, run.loop.failures
        queries = [query for query in queries if query.name not in run.loop.failures]
        results = {query.name: run.results(query.name) for query in queries}
        run.close()
    models = accepted_rows(streams, batches)
    for query in queries:
        tables = {name: model.rows_for(query) for name, model in models.items()}
        expected = expected_rows(query, streams, tables)
        check_rows(results[query.name], expected, what=f"seed {seed}: {query.text}")
    return sum(table.num_rows for table in results.values())

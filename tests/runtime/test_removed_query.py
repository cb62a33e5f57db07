"""A restart without a query whose rows were still waiting to enter its state."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
from tests.runtime.directed_runs import STREAMS, joined, steady_batches

from anabranch.exchange.partition_map import PARTITIONS
from anabranch.runtime.adaptation import Adaptation
from anabranch.runtime.admission import Admission
from anabranch.testing.local_run import LocalRun
from anabranch.testing.oracle_check import accepted_rows, check_rows, expected_rows, scratch


def test_rows_that_wait_for_a_removed_query_stop_nothing() -> None:
    stays, goes = joined("a", "b", name="stays"), joined("c", "d", name="goes")
    batches = steady_batches(3)
    everything = Admission({}, frozenset(range(PARTITIONS)))
    with scratch() as root:
        run = LocalRun(root, STREAMS, [stays, goes])
        sinks = run.sinks
        with mock.patch.object(Adaptation, "admission", return_value=everything):
            run.batch(batches[0])
        run.close()
        run = LocalRun(root, STREAMS, [stays], sinks=sinks)
        for batch in batches[1:]:
            run.batch(batch)
        run.drain()
        run.close()
        results = run.results("stays")
    tables = {name: pa.concat_tables(m.accepted) for name, m in accepted_rows(STREAMS, batches).items()}
    assert results.num_rows
    check_rows(results, expected_rows(stays, STREAMS, tables), what=stays.text)

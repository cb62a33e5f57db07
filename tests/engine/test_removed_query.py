"""A restart without a query whose rows were still waiting to enter its state."""

from __future__ import annotations

from anabranch.adapt.memory.admission import Admission
from anabranch.engine.local_driver import LocalRun
from anabranch.exchange.address import PARTITIONS
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.support.fixed_admission import FixedAdmission
from tests.support.oracle_check import check_rows


def test_rows_that_wait_for_a_removed_query_stop_nothing() -> None:
    stays, goes = joined("a", "b", name="stays"), joined("c", "d", name="goes")
    batches = steady_batches(3)
    everything = Admission({}, frozenset(range(PARTITIONS)))
    with scratch() as root:
        run = LocalRun(root, STREAMS, [stays, goes], decider=FixedAdmission(lambda batch: everything))
        sinks = run.sinks
        run.batch(batches[0])
        run.close()
        run = LocalRun(root, STREAMS, [stays], sinks=sinks)
        for batch in batches[1:]:
            run.batch(batch)
        run.drain()
        run.close()
        results = run.results("stays")
    tables = {name: m.rows_for(stays) for name, m in accepted_rows(STREAMS, batches).items()}
    assert results.num_rows
    check_rows(results, expected_rows(stays, STREAMS, tables), what=stays.text)

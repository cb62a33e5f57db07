"""What each query has taken of a step, and who took too much."""

from __future__ import annotations

from anabranch.engine.reports import SlotReport
from anabranch.engine.step.query_costs import cpu_by_query, over_cpu_quota
from anabranch.engine.task.results.result_files import rows_shared


def test_members_share_the_time_of_their_group_by_rows() -> None:
    one = SlotReport(0, query_s={"g": 3.0, "alone": 1.0}, given={"g": [("a", 2), ("b", 1)]})
    two = SlotReport(1, query_s={"g": 1.0}, given={"g": [("b", 7)]}, given_alone={"alone": 5})
    found = cpu_by_query([one, two])
    assert found == {"a": 2.0, "b": 2.0, "alone": 1.0}
    assert sorted(rows_shared([one, two])) == [("a", 2), ("alone", 5), ("b", 1), ("b", 7)]
    assert over_cpu_quota([one, two], 0) == {}
    assert set(over_cpu_quota([one, two], 1500)) == {"a", "b"}
    assert "2,000 ms of CPU time" in over_cpu_quota([one, two], 1500)["a"]

"""What a step tells about the machine that it ran on."""

from __future__ import annotations

import pytest

from anabranch.engine.boundary.observation import _crowding
from anabranch.engine.reports import SiteReport, SlotReport


def _report(busy_s: float, worked_s: float) -> SlotReport:
    return SlotReport(0, sites=[SiteReport(0, busy_s=busy_s)], seconds={"receive": 9.0, "join": worked_s})


@pytest.mark.parametrize(
    ("busy_s", "worked_s", "crowding"),
    [
        pytest.param(0.1, 0.1, 1.0, id="an idle machine"),
        pytest.param(0.1, 1.0, 10.0, id="a machine that others use"),
        pytest.param(0.1, 0.05, 1.0, id="never below one"),
        pytest.param(0.001, 0.05, 1.0, id="too little work to tell"),
    ],
)
def test_work_that_takes_longer_than_its_cpu_time_tells_how_crowded_the_machine_is(
    busy_s: float, worked_s: float, crowding: float
) -> None:
    assert _crowding([_report(busy_s, worked_s)]) == pytest.approx(crowding)


def test_without_reports_nothing_is_known() -> None:
    assert _crowding([]) == 1.0

"""What slots report is of the step that asked them, and once."""

from __future__ import annotations

import pytest

from anabranch.engine.reports import SlotReport, check_reports
from anabranch.state.stamp import Stamp

NOW, BEFORE = Stamp(1, 4, 3), Stamp(1, 4, 2)


def test_every_slot_reports_once_for_each_hop() -> None:
    reports = [SlotReport(slot, hop, NOW) for slot in (0, 1) for hop in (0, 1)]
    check_reports(reports, NOW)
    with pytest.raises(AssertionError, match="reported twice"):
        check_reports([*reports, SlotReport(1, 1, NOW)], NOW)


def test_a_report_of_another_step_is_refused() -> None:
    with pytest.raises(AssertionError, match="was given reports of"):
        check_reports([SlotReport(0, 0, NOW), SlotReport(1, 0, BEFORE)], NOW)

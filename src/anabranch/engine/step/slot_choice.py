"""How many slots a batch gets: one where a second would cost more than it takes over.

    several slots   sources ─► shuffle ─► tasks      rows are written, sent and read once more, in two stages
    one slot        sources ─► task                  it takes the rows as they come, in one stage

Sites are logical, so that this changes neither results nor what is measured of a site.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.engine.reports import SlotReport

MOST_BUSY_S = 0.05
"""CPU time of all sites that one slot may have to work through: about what a shuffle and a task cost."""


def is_little(reports: Sequence[SlotReport], *, most_rows: int) -> bool:
    """Whether one slot is enough for a batch like the one that these reports are of.

    Before the first batch nothing is known.

    >>> is_little((), most_rows=1000)
    False
    """
    streams = [stream for report in reports for stream in report.streams.values()]
    rows = sum(s.accepted + s.late + s.rejected for s in streams)
    busy_s = sum(site.busy_s for report in reports for site in report.sites)
    return bool(reports) and rows <= most_rows and busy_s <= MOST_BUSY_S

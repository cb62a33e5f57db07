"""A run as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from anabranch.adapt.events import Event
from anabranch.engine.progress import Progress

SHOWN_EVENTS = 5


def run_html(how: str, last: Progress | None, events: Sequence[Event]) -> str:
    """How a run fares: its last batch, its queries, and its last decisions.

    >>> run_html("running", None, [])
    '<p><b>Anabranch run</b>: running, no batch yet</p>'
    """
    if last is None:
        return f"<p><b>Anabranch run</b>: {escape(how)}, no batch yet</p>"
    figures = (
        f"batch {last.batch}, {last.input_rows:,} rows in {last.total_ms:,.0f} ms "
        f"({last.rows_per_second:,.0f} rows/s); state {last.state.rows:,} rows"
    )
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(query.status)}</td><td>{query.output_rows:,}</td></tr>"
        for name, query in last.queries.items()
    )
    shown = [event for event in events if not event.kind.is_detail][-SHOWN_EVENTS:]
    told = "".join(f"<li>{escape(str(event))}</li>" for event in shown)
    return (
        f"<p><b>Anabranch run</b>: {escape(how)}, {figures}</p>"
        f"<table><tr><th>query</th><th>status</th><th>results in batch</th></tr>{rows}</table>"
        + (f"<ul>{told}</ul>" if told else "")
    )

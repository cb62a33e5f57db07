"""A run as HTML, for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from anabranch.adapt.events import Event
from anabranch.engine.progress import Progress, QueryProgress

SHOWN_EVENTS = 5
SHOWN_QUERIES = 20


def run_html(
    how: str,
    last: Progress | None,
    events: Sequence[Event],
    *,
    plans: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """How a run fares: its last batch, its queries with their plans, and its last decisions.

    Parameters
    ----------
    plans
        By join, the plan of every site.

    Examples
    --------
    >>> run_html("running", None, [])
    '<p><b>Anabranch run</b>: running, no batch yet</p>'
    """
    if last is None:
        return f"<p><b>Anabranch run</b>: {escape(how)}, no batch yet</p>"
    shown = [event for event in events if not event.kind.is_detail][-SHOWN_EVENTS:]
    told = "".join(f"<li>{escape(str(event))}</li>" for event in shown)
    return (
        f"<p><b>Anabranch run</b>: {escape(how)}, {_figures(last)}</p>"
        + _queries(how, last.queries, plans or {})
        + (f"<p>Last decisions and events:</p><ul>{told}</ul>" if told else "")
    )


def _figures(last: Progress) -> str:
    late = sum(stream.late for stream in last.streams.values())
    rejected = sum(stream.rejected for stream in last.streams.values())
    return (
        f"batch {last.batch}, {last.input_rows:,} rows in {last.total_ms:,.0f} ms "
        f"({last.rows_per_second:,.0f} rows/s); state {last.state.rows:,} rows; "
        f"so far {late:,} rows were late, {rejected:,} malformed"
    )


def _queries(how: str, queries: Mapping[str, QueryProgress], plans: Mapping[str, Sequence[str]]) -> str:
    rows = "".join(
        _row(name, _status(how, query), f"{query.output_rows:,}", _plan(plans.get(name, ())))
        for name, query in list(queries.items())[:SHOWN_QUERIES]
    )
    left = len(queries) - SHOWN_QUERIES
    more = f"<p>… and {left:,} more queries</p>" if left > 0 else ""
    head = "".join(f"<th>{title}</th>" for title in ("query", "status", "results in batch", "plan"))
    return f"<table><tr>{head}</tr>{rows}</table>{more}"


def _row(name: str, status: str, results: str, plan: str) -> str:
    texts = "".join(f'<td style="text-align:left">{escape(text)}</td>' for text in (name, status))
    return f'<tr>{texts}<td>{results}</td><td style="text-align:left">{escape(plan)}</td></tr>'


def _status(how: str, query: QueryProgress) -> str:
    """No query runs in a run that has ended."""
    return query.failure or (how if query.status == "running" else query.status)


def _plan(plans: Sequence[str]) -> str:
    """The plan of all sites; where they differ, each with its number of sites.

    >>> _plan(["(a b)", "(a b)"]), _plan(["((a b) c)", "((b c) a)", "((a b) c)"])
    ('(a b)', '((a b) c) at 2 sites, ((b c) a) at 1')
    """
    sites = Counter(plans).most_common()
    if len(sites) < 2:
        return sites[0][0] if sites else ""
    (first, many), *others = sites
    return ", ".join([f"{first} at {many} sites", *(f"{plan} at {n}" for plan, n in others)])

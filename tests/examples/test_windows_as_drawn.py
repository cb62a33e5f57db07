"""What the docs and the example say of windows, read from their drawings and tried in a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Query, Stream

ROOT = Path(__file__).parents[2]
MINUTE_US = 60_000_000
NOON_US = 1_767_268_800_000_000  # 2026-01-01 12:00


def orders(*times: int) -> pa.Table:
    size = len(times)
    ts = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.table({"id": [1] * size, "customer": [1] * size, "amount": [9.0] * size, "ts": ts})


def payments(*times: int) -> pa.Table:
    ts = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.table({"order_id": [1] * len(times), "paid": [1.0] * len(times), "ts": ts})


def results(
    root: Path, streams: Sequence[Stream], query: Query, batches: Sequence[Mapping[str, pa.Table]]
) -> pa.Table:
    run = LocalRun(root, streams, [query])
    for batch in batches:
        run.batch(batch)
    run.end_of_input()
    run.close()
    return run.results(query.name)


def is_result(root: Path, flow_text: str, payment_us: int) -> bool:
    """Whether a payment makes a result with an order at noon, whichever of them arrives first."""
    flow = parse_flow(flow_text)
    order, payment = {"orders": orders(NOON_US)}, {"payments": payments(payment_us)}
    arrivals = [[{**order, **payment}], [order, payment], [payment, order]]
    found = {
        results(root / str(i), flow.streams, flow.queries[0], batches).num_rows
        for i, batches in enumerate(arrivals)
    }
    assert len(found) == 1, "the order of arrival must not matter"
    return found == {1}


def drawn_payments() -> list[tuple[str, bool]]:
    page = (ROOT / "docs" / "language.md").read_text()
    found = re.findall(r"^    payment at (\d\d:\d\d) .*?(a|no) result", page, re.MULTILINE)
    return [(time, word == "a") for time, word in found]


def flow_of_the_docs() -> str:
    page = (ROOT / "docs" / "language.md").read_text()
    return page.split("```sql\n")[1].split("```")[0]


def test_there_are_drawings() -> None:
    assert [kept for _, kept in drawn_payments()] == [False, True, True, True, False]


@pytest.mark.parametrize(("time", "kept"), drawn_payments())
def test_payments_join_their_order_as_drawn(tmp_path: Path, time: str, kept: bool) -> None:
    hour, minute = map(int, time.split(":"))
    assert is_result(tmp_path, flow_of_the_docs(), NOON_US + ((hour - 12) * 60 + minute) * MINUTE_US) == kept


def test_the_flow_file_of_the_example_says_what_its_windows_do(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "payments" / "flow.sql").read_text()
    drawn = re.search(r"payment is +(\d+) min before +its order +(\d+) min after", text)
    assert drawn is not None
    before, after = (int(drawn[i]) * MINUTE_US for i in (1, 2))
    bounds = {-before - 1: False, -before: True, 0: True, after: True, after + 1: False}
    for distance, kept in bounds.items():
        assert is_result(tmp_path / str(distance), text, NOON_US + distance) == kept


COLUMNS = (Column("k", "bigint"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, COLUMNS, "ts", lateness_us=100) for name in ("a", "b"))


def rows(*times: int) -> pa.Table:
    return pa.table({"k": [1] * len(times), "ts": pa.array(times, pa.timestamp("us"))})


def test_two_streams_join_as_drawn(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "semantics.md").read_text()
    times = [int(t) for t in re.findall(r"\d+", re.search(r"^    row of b(.*)$", page, re.MULTILINE)[1])]  # type: ignore[index]
    drawn = re.findall(r"yes|no", re.search(r"^    result (.*)$", page, re.MULTILINE)[1])  # type: ignore[index]
    query = bind_query(
        "q",
        "SELECT b.ts FROM a [RANGE 4 MICROSECONDS], b [RANGE 2 MICROSECONDS] WHERE a.k = b.k",
        {s.name: s for s in STREAMS},
    )
    table = results(tmp_path, STREAMS, query, [{"a": rows(10), "b": rows(*times)}])
    found = set(table.column("ts").cast(pa.int64()).to_pylist())
    assert ["yes" if t in found else "no" for t in times] == drawn


def test_results_of_a_join_are_counted_as_drawn(tmp_path: Path) -> None:
    """`docs/aggregates.md`: o1 at 0, p1 at 2, p2 at 4; the count is 1 with p1 and 2 with p2."""
    page = (ROOT / "docs" / "aggregates.md").read_text()
    drawn = re.search(r"COUNT\(\*\) with p1: (\d), with p2: (\d)", page)
    assert drawn is not None
    query = bind_query(
        "q",
        "SELECT COUNT(*) AS n, MAX(b.ts) AS t FROM a [RANGE 5 MICROSECONDS], b [RANGE 3 MICROSECONDS] "
        "WHERE a.k = b.k",
        {s.name: s for s in STREAMS},
    )
    table = results(tmp_path, STREAMS, query, [{"a": rows(0), "b": rows(2, 4)}]).sort_by("t")
    assert table.column("n").to_pylist() == [int(drawn[1]), int(drawn[2])]

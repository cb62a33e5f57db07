"""Tests of flow.sql, in milliseconds and without Spark: `pytest test_flow.py`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing import FlowTest


@pytest.fixture
def flow() -> Iterator[FlowTest]:
    with FlowTest(Path(__file__).with_name("flow.sql")) as kit:
        yield kit


def order(number: int, amount: float, time: str) -> dict[str, object]:
    return {"id": number, "customer": 7, "amount": amount, "ts": f"2026-01-01 {time}"}


def payment(number: int, paid: float, time: str) -> dict[str, object]:
    return {"order_id": number, "paid": paid, "ts": f"2026-01-01 {time}"}


def test_a_payment_below_the_amount_is_underpaid(flow: FlowTest) -> None:
    flow.batch(orders=[order(1, 30.0, "12:00:00"), order(2, 50.0, "12:00:01")])
    flow.batch(payments=[payment(1, 20.0, "12:30:00"), payment(2, 50.0, "12:30:01")])
    assert flow.results("underpaid") == [{"id": 1, "customer": 7, "amount": 30.0, "paid": 20.0}]


def test_a_payment_after_an_hour_does_not_count(flow: FlowTest) -> None:
    flow.batch(orders=[order(1, 30.0, "12:00:00")])
    flow.batch(payments=[payment(1, 20.0, "13:00:01")])
    assert flow.results("underpaid") == []


def test_any_order_of_arrival_gives_what_batch_sql_gives(flow: FlowTest) -> None:
    flow.batch(payments=[payment(n, 10.0 * n, f"12:0{n}:00") for n in range(5)])
    flow.batch(orders=[order(n, 25.0, f"12:0{n}:30") for n in range(5)])
    flow.check()

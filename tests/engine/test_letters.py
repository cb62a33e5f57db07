"""What dead letters say of rows that came too late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.state.paths import DEAD_LETTERS
from tests.support.storages import stored_rows

START = 1_700_000_000_000_000
COLUMNS = (
    Column("id", "int"),
    Column("k", "bigint"),
    Column("the name", "string"),
    Column("when", "timestamp"),
)
A = Stream("a", COLUMNS, "when")


def rows(time: int, name: bytes = b"Ada") -> pa.Table:
    """One row; its name may be any bytes, as it may in Spark."""
    text = pa.array([name], pa.binary()).cast(pa.large_binary())
    return pa.table(
        {
            "id": pa.array([7], pa.int32()),
            "k": pa.array([1], pa.int64()),
            "the name": pa.Array.from_buffers(pa.large_string(), 1, text.buffers()),
            "when": pa.array([START + time], pa.timestamp("us")),
        }
    )


def letter_of_a_late_row(root: Path, *texts: str, name: bytes = b"Ada") -> dict[str, Any]:
    queries = [bind_query(f"q{i}", text, {"a": A}) for i, text in enumerate(texts)]
    run = LocalRun(root, [A], queries)
    run.batch({"a": rows(10)})
    run.batch({"a": rows(5, name)})
    run.close()
    (letter,) = stored_rows(run.storage, DEAD_LETTERS)
    assert (letter["stream"], letter["reason"], letter["event_time_us"]) == ("a", "late", START + 5)
    found: dict[str, Any] = json.loads(letter["row"])
    return found


WHEN = "2023-11-14 22:13:20.000005"
JOIN = "FROM a [NOW] x, a [NOW] y WHERE x.k = y.k"


def test_columns_have_the_names_that_the_user_gave_them(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(tmp_path, f"SELECT x.id, x.`the name`, y.id AS other {JOIN}")
    assert letter == {"id": 7, "the name": "Ada", "when": WHEN}


def test_the_time_is_told_once_when_a_query_asks_for_it(tmp_path: Path) -> None:
    assert letter_of_a_late_row(tmp_path, "SELECT DISTINCT `WHEN`, id FROM a [NOW]") == {
        "when": WHEN,
        "id": 7,
    }


def test_the_fullest_copy_of_a_row_stands_for_it(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(
        tmp_path,
        "SELECT DISTINCT k FROM a [NOW] WHERE id > 0",
        "SELECT DISTINCT k, id, `the name` FROM a [NOW] WHERE id > 1",
        "SELECT DISTINCT k, id FROM a [NOW] WHERE id > 2",
    )
    assert letter == {"id": 7, "k": 1, "the name": "Ada", "when": WHEN}


def test_the_fullest_copy_of_those_that_were_wanted_stands_for_a_row(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(
        tmp_path,
        "SELECT DISTINCT k, id, `the name` FROM a [NOW] WHERE id > 100",
        "SELECT DISTINCT k, id FROM a [NOW] WHERE id > 2",
        "SELECT DISTINCT k FROM a [NOW] WHERE id > 3",
    )
    assert letter == {"id": 7, "k": 1, "when": WHEN}


def test_the_fullest_copy_of_those_that_refused_it_stands_for_a_row(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(
        tmp_path,
        "SELECT k, id, `the name` FROM a",  # keeps no state: it has the row
        "SELECT DISTINCT k FROM a [NOW]",
        "SELECT DISTINCT k, id FROM a [NOW]",
    )
    assert letter == {"id": 7, "k": 1, "when": WHEN}


def test_a_row_of_which_nothing_is_selected_has_its_time(tmp_path: Path) -> None:
    assert letter_of_a_late_row(tmp_path, "SELECT COUNT(*) AS n FROM a [ROWS 2]") == {"when": WHEN}


def test_computed_values_are_named_by_how_they_are_computed(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(tmp_path, "SELECT DISTINCT coalesce(id, 0) AS i FROM a [NOW]")
    assert letter == {"coalesce(`id`, 0)": 7, "when": WHEN}


def test_text_that_is_not_utf8_is_kept_in_hex(tmp_path: Path) -> None:
    letter = letter_of_a_late_row(tmp_path, f"SELECT x.id, x.`the name` {JOIN}", name=b"Ad\xff\xe4a")
    assert letter == {"id": 7, "the name": r"Ad\xff\xe4a", "when": WHEN}

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command

TWO = """
CREATE QUERY equal INTO console AS
  SELECT o.id FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 10 MINUTES] AS p WHERE o.id = p.order_id;
CREATE QUERY less INTO console AS
  SELECT o.id FROM orders [RANGE 1 HOUR] AS o, payments [NOW] AS p WHERE o.amount < p.paid;
"""


def test_a_join_on_a_key_is_partitioned_over_the_sites(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file(TWO), "--query", "equal", "--sites", 8)
    assert result.exit_code == 0
    assert "query equal" in result.output
    assert "partitioned over 8 sites" in result.output
    assert "query less" not in result.output


def test_a_join_without_an_equality_is_routed_by_segments_and_says_why(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file(TWO), "--query", "LESS")
    assert "aligned, by segments of time over" in result.output


def test_all_queries_are_explained_and_the_setting_counts(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file("SET sites = 5;" + TWO))
    assert "partitioned over 5 sites" in result.output
    assert "query less" in result.output


PARSED = """
CREATE STREAM k FROM kafka 'topic' AS
  SELECT from_json(CAST(value AS STRING), 'id BIGINT, ts TIMESTAMP').*, lower(topic) AS name TIME ts;
CREATE TABLE names (id BIGINT, name STRING) FROM parquet 'names';
CREATE QUERY known INTO console AS SELECT k.id, n.name FROM k, names n WHERE k.id = n.id;
CREATE QUERY later INTO console AS SELECT name FROM k;
"""


def test_queries_over_a_select_are_explained_as_far_as_its_types_are_known_without_spark(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file(PARSED))
    assert result.exit_code == 0
    assert "meets table names at ingest: `id` = `id`" in result.output
    assert "query later: its plan is known when Spark has started" in result.output
    assert "write CAST(… AS type) AS name in the SELECT of stream k" in result.output


def test_an_unknown_query_gets_the_names_there_are(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file(TWO), "--query", "none")
    assert result.exit_code == 2
    assert "choose from equal, less" in result.stderr


def test_explaining_starts_no_jvm(flow_file: Callable[[str], Path]) -> None:
    script = (
        "import sys\nfrom anabranch.cli.app import app\n"
        "app(['explain', sys.argv[1]], standalone_mode=False)\n"
        "from pyspark import SparkContext\nassert SparkContext._gateway is None"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(flow_file(TWO))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--json"], "add --why"),
        (["--why", "--sites", 2], "no --sites"),
        (["--why", "--checkpoint", "c"], "in place of the flow file"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    anabranch: Command, flow_file: Callable[[str], Path], options: list[object], advice: str
) -> None:
    result = anabranch("explain", flow_file(TWO), *options)
    assert result.exit_code == 2
    assert advice in result.stderr


WINDOWED = """
CREATE QUERY minutes INTO console AS
  SELECT id, window.start, SUM(amount) AS total FROM orders GROUP BY id, window(ts, '5 minutes', '1 minute');
CREATE QUERY visits INTO console AS
  SELECT session_window.start, median(amount) AS m FROM orders GROUP BY session_window(ts, '30 seconds');
"""


def test_windows_are_explained_with_what_is_kept(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    told = anabranch("explain", flow_file(WINDOWED), "--sites", 3).output
    assert "one result per group and window of 300 seconds, one every 60 seconds, when final" in told
    assert "partial aggregates are kept in state results:minutes#" in told
    assert "hash of all group keys, partitioned over 3 sites" in told
    assert "one group, because without another key all rows of a window are; over 3 sites while" in told
    assert "rows are kept in state results:visits#" in told


ONE_GROUP = """
CREATE QUERY totals INTO console AS SELECT SUM(amount) AS total FROM orders [RANGE 1 HOUR];
CREATE QUERY latest INTO console AS SELECT SUM(amount) AS total FROM orders [ROWS 10];
CREATE QUERY pairs INTO console AS
  SELECT COUNT(*) AS n FROM orders [RANGE 1 HOUR] AS o, payments [NOW] AS p WHERE o.id = p.order_id;
"""


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("totals", "one group, because without GROUP BY all rows are; over 3 sites while"),
        ("latest", "one site, because without GROUP BY all rows are one group"),
        ("pairs", "one group, because without GROUP BY all results of the join are; over 3 sites while"),
    ],
)
def test_a_group_that_is_everything_is_said_to_be_spread_where_it_may_be(
    anabranch: Command, flow_file: Callable[[str], Path], query: str, told: str
) -> None:
    flow = flow_file(ONE_GROUP)
    assert told in anabranch("explain", flow, "--query", query, "--sites", 3).output
    assert "one site, because" in anabranch("explain", flow, "--query", query, "--sites", 1).output


def test_a_file_without_queries_says_what_to_add(
    anabranch: Command, flow_file: Callable[[str], Path]
) -> None:
    result = anabranch("explain", flow_file(""))
    assert result.exit_code == 2
    assert "has no query to explain: add CREATE QUERY" in " ".join(result.stderr.split())

"""Static tables: a stream's row meets the version of the batch in which it arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import ConfigError, QueryError, RunError
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import Column, Connector, Table
from anabranch.spark.tables.table_reader import TableReader
from anabranch.spark.tables.table_versions import noted_versions
from anabranch.state import PosixStorage, newest
from anabranch.testing.oracle_compare import assert_same_rows
from tests.support.spark_cluster import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FLOW = """
SET sites = 3;
CREATE STREAM orders (id BIGINT, customer INT, ts TIMESTAMP)
  FROM parquet '{root}/orders' OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 HOUR;
CREATE STREAM payments (order_id BIGINT, region STRING, ts TIMESTAMP)
  FROM parquet '{root}/payments' OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 HOUR;
CREATE TABLE customers (id BIGINT, name STRING, region STRING, since TIMESTAMP)
  FROM parquet '{root}/customers' REFRESH EVERY 1 MINUTE;
CREATE TABLE regions (code STRING, label STRING) FROM csv '{root}/regions';
CREATE QUERY plain INTO parquet '{root}/plain' AS SELECT id, customer FROM orders;
CREATE QUERY named INTO parquet '{root}/named' AS
  SELECT o.id, upper(c.name) AS name, c.since, concat_ws('/', c.region, o.id) AS both
  FROM orders o, customers c WHERE o.customer = c.id AND c.name <> 'Cem';
CREATE QUERY matched INTO parquet '{root}/matched' AS
  SELECT o.id, p.order_id, c.name, r.label
  FROM orders [RANGE 10 MINUTES] o, payments [RANGE 10 MINUTES] p, customers c, regions r
  WHERE o.customer = c.id AND c.region = p.region AND r.code = c.region AND o.id < p.order_id;
CREATE QUERY counted INTO parquet '{root}/counted' AS
  SELECT c.region, window.start, COUNT(*) AS orders, COUNT(DISTINCT c.name) AS names
  FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY c.region, window(o.ts, '5 minutes');
"""
RIGHT = {
    "plain": "SELECT id, customer FROM orders",
    "named": """SELECT o.id, upper(c.name) AS name, c.since, concat_ws('/', c.region, o.id) AS both
        FROM orders o JOIN customers c ON o.customer = c.id AND o.run = c.run WHERE c.name <> 'Cem'""",
    "matched": """SELECT o.id, p.order_id, c.name, r.label
        FROM orders o JOIN customers c ON o.customer = c.id AND o.run = c.run
        JOIN regions r ON r.code = c.region JOIN payments p ON c.region = p.region
        WHERE o.id < p.order_id AND abs(epoch_us(o.ts) - epoch_us(p.ts)) <= 600000000""",
    "counted": """SELECT c.region, time_bucket(INTERVAL '5 minutes', o.ts) AS start, count(*) AS orders,
        count(DISTINCT c.name) AS names
        FROM orders o JOIN customers c ON o.customer = c.id AND o.run = c.run GROUP BY ALL""",
}
CUSTOMERS = [
    [(1, "Ada", "n"), (2, "Bo", "s"), (2, "Bob", "n"), (3, "Cem", "n"), (None, "Nil", "n"), (9, None, None)],
    [(1, "Ada", "s"), (2, "Bo", "s"), (4, "Dee", "n")],
]


def write_streams(root: Path, run: int, files: int = 2) -> None:
    for number in range(run * files, run * files + files):
        ids = range(number * 12, number * 12 + 12)
        times = pa.array([NOON + timedelta(seconds=20 * i) for i in ids], pa.timestamp("us", "UTC"))
        customers = pa.array([None if i % 7 == 6 else i % 6 for i in ids], pa.int32())
        _write(root / "orders", f"{run}-{number}", {"id": list(ids), "customer": customers, "ts": times})
        regions = ["ns"[i % 2] for i in ids]
        _write(root / "payments", f"{run}-{number}", {"order_id": list(ids), "region": regions, "ts": times})


def write_customers(root: Path, run: int) -> None:
    for old in root.glob("customers/*.parquet"):
        old.unlink()
    ids, names, regions = zip(*CUSTOMERS[run], strict=True)
    since = pa.array([NOON - timedelta(days=i) for i in range(len(ids))], pa.timestamp("us", "UTC"))
    columns = {"id": pa.array(ids, pa.int64()), "name": names, "region": regions, "since": since}
    _write(root / "customers", f"v{run}", columns)


def _write(folder: Path, name: str, columns: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def run_all(spark: SparkSession, root: Path, *, end: bool) -> ab.Run:
    session = ab.Session(spark, root / "checkpoint")
    session.load(parse_flow(FLOW.format(root=root)))
    run = session.start(availableNow=True, endOfInput=end)
    run.awaitTermination()
    return run


def test_rows_meet_the_version_of_their_batch_in_every_kind_of_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "regions").mkdir()
    (tmp_path / "regions" / "r.csv").write_text("n,North\ns,South\ns,Süd\n")
    versions = []
    for number in (0, 1):
        write_streams(tmp_path, number)
        write_customers(tmp_path, number)
        run = run_all(spark, tmp_path, end=number == 1)
        manifest = newest(PosixStorage(tmp_path / "checkpoint"))
        assert manifest is not None
        versions.append(manifest.tables["customers"]["version"])
        assert [e.data["version"] for e in run.events if e.kind == "table_read"].count(versions[-1]) == 1
    assert versions[0] != versions[1]
    assert run.lastProgress["streams"]["orders"]["accepted"] == 48  # type: ignore[index]
    with duckdb.connect() as connection:
        _load(connection, tmp_path)
        for name, sql in RIGHT.items():
            expected = connection.sql(sql).to_arrow_table()
            assert expected.num_rows > 3
            assert_same_rows(tmp_path / name, expected, what=name)


def _load(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    for stream in ("orders", "payments"):
        connection.execute(
            f"CREATE TABLE {stream} AS SELECT * REPLACE (ts AT TIME ZONE 'UTC' AS ts), "
            f"regexp_extract(filename, '(\\d)-\\d+.parquet', 1)::INT AS run "
            f"FROM read_parquet('{root}/{stream}/*.parquet', filename = true)"
        )
    connection.execute(
        "CREATE TABLE regions AS "
        "SELECT * FROM VALUES ('n', 'North'), ('s', 'South'), ('s', 'Süd') r(code, label)"
    )
    connection.execute(
        "CREATE TABLE customers (run INT, id BIGINT, name VARCHAR, region VARCHAR, since TIMESTAMP)"
    )
    for run, rows in enumerate(CUSTOMERS):
        for number, row in enumerate(rows):
            since = (NOON - timedelta(days=number)).replace(tzinfo=None)
            connection.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?)", [run, *row, since])


def test_a_batch_that_runs_again_uses_the_version_that_it_has_begun_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_customers(tmp_path, 0)
    columns = (Column("id", "bigint"), Column("name", "string"))
    source = Connector("parquet", str(tmp_path / "customers"))
    table = Table("customers", columns, source, refresh_us=60_000_000)
    now = [0.0]

    def reader() -> TableReader:
        return TableReader(spark, PosixStorage(root), root, [table], {}, clock=lambda: now[0])

    root = tmp_path / "checkpoint"

    def used(batch: int) -> dict[str, Any]:
        return noted_versions(root, batch)["customers"]

    first = reader()
    first.offer()
    old = used(5)
    (event,) = first.note(5)
    assert (event.data["version"], old["rows"]) == (old["version"], 6)
    write_customers(tmp_path, 1)
    first.offer()  # not due yet
    assert used(6) == old
    assert first.note(6) == []
    now[0] = 61.0
    first.offer()
    new = used(7)
    assert (new["rows"], first.note(7)[0].data["version"]) == (3, new["version"])
    again = reader()  # a restart
    again.offer()
    assert [used(batch) for batch in (5, 6, 8)] == [old, old, new]
    for batch in range(9, 30):
        used(batch)
        again.note(batch)
    kept = {path.name for path in (root / "tables" / "copies" / "customers").iterdir()}
    assert {f"{new['version']}.arrow"} <= kept
    assert len(list((root / "tables" / "notes").iterdir())) == 8


def test_a_table_that_changes_while_a_run_goes_on_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    write_customers(tmp_path, 0)
    write_streams(tmp_path, 0, files=1)
    text = FLOW[: FLOW.index("CREATE QUERY matched")].replace("1 MINUTE", "50 MILLISECONDS")
    (tmp_path / "regions").mkdir()
    with ab.Session(spark, tmp_path / "checkpoint") as session:
        session.load(parse_flow(text.format(root=tmp_path)))
        run = session.start(processingTime="100 milliseconds")
        run.processAllAvailable()
        write_customers(tmp_path, 1)
        offers = tmp_path / "checkpoint" / "tables" / "offers"
        wait_until(lambda: len(list(offers.iterdir())) > 1, "a new version")
        write_streams(tmp_path, 1, files=1)
        run.processAllAvailable()
    with duckdb.connect() as connection:
        _load(connection, tmp_path)
        expected = connection.sql(RIGHT["named"]).to_arrow_table()
        assert_same_rows(tmp_path / "named", expected, what="named")


def test_a_run_that_dies_in_a_batch_repeats_it_with_the_version_that_it_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_customers(tmp_path, 0)
    write_streams(tmp_path, 0, files=1)
    (tmp_path / "regions").mkdir()

    def fail(*args: object, **more: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr("anabranch.engine.step.batch_loop.publish", fail)
        with pytest.raises(RunError, match="the disk is gone"):
            run_all(spark, tmp_path, end=False)
    assert pq.read_table(tmp_path / "named").num_rows == 0
    write_customers(tmp_path, 1)
    write_streams(tmp_path, 1, files=1)
    run_all(spark, tmp_path, end=False)
    with duckdb.connect() as connection:
        _load(connection, tmp_path)
        expected = connection.sql(RIGHT["named"]).to_arrow_table()
        assert_same_rows(tmp_path / "named", expected, what="named")


def test_a_table_of_python_is_a_data_frame_or_a_path(spark: SparkSession, tmp_path: Path) -> None:
    write_streams(tmp_path, 0)
    write_customers(tmp_path, 0)
    orders = spark.readStream.schema("id BIGINT, customer INT, ts TIMESTAMP").parquet(
        str(tmp_path / "orders")
    )
    with ab.Session(spark, tmp_path / "checkpoint", sites=1) as session:
        session.stream("orders", orders, time="ts")
        session.table("frame", spark.createDataFrame([(1, "one"), (3, "three")], "id INT, word STRING"))
        session.table("files", tmp_path / "customers", refresh="1 minute")
        sink = ab.memory()
        session.query(
            "q",
            "SELECT o.id, f.word, c.name FROM orders o, frame f, files c "
            "WHERE o.customer = f.id AND f.id = c.id",
            sink,
        )
        session.start(availableNow=True).awaitTermination()
    expected = {1: ("one", "Ada"), 3: ("three", "Cem")}
    found = {(row["word"], row["name"]) for row in sink.table().to_pylist()}
    assert found == set(expected.values())
    with pytest.raises(ConfigError, match="is streaming"):
        ab.Session(spark, tmp_path / "other").table("t", orders)
    with pytest.raises(ConfigError, match="cannot be read"):
        ab.Session(spark, tmp_path / "other").table("t", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT o.id FROM orders o, ^customers c", "not joined with a stream by ="),
        ("SELECT o.id FROM ^customers c, orders o WHERE o.customer = c.id", "FROM begins with a table"),
        ("SELECT o.id FROM orders o, customers ^[NOW] c WHERE o.customer = c.id", "tables have no window"),
        ("SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id", "LEFT JOIN"),
    ],
)
def test_what_a_table_cannot_do_is_told_with_its_place(select: str, message: str) -> None:
    text = FLOW.format(root="x") + f"CREATE QUERY more INTO console AS {select.replace('^', '')};"
    with pytest.raises(QueryError, match=message) as caught:
        parse_flow(text)
    if "^" in select:
        line = "CREATE QUERY more INTO console AS " + select
        assert caught.value.column in (line.index("^") + 1, line.index("^") + 2)

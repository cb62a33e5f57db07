"""Going on from a checkpoint: whole, halved, older, in use, or with a changed flow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import StateError
from anabranch.language.flow import parse_flow
from anabranch.state import CheckpointInUseError, PosixStorage, newest
from anabranch.testing.oracle_compare import assert_same_rows
from tests.reliability.begun import HALF, Begun, Text, begin, stream_c

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Begun:
    return begin(tmp_path_factory.mktemp("begun"), spark)


@pytest.fixture
def begun(original: Begun, tmp_path: Path) -> Begun:
    """The same checkpoint and sinks, for one test alone."""
    return original.copy_to(tmp_path / "copy")


def test_the_second_half_continues_the_first_and_an_older_copy_gives_the_same_again(
    begun: Begun, spark: SparkSession, tmp_path: Path
) -> None:
    older = begun.copy_to(tmp_path / "older")
    begun.go_on(spark)
    begun.assert_exact("pairs")
    begun.assert_exact("high")
    shutil.rmtree(begun.root)
    older.root.rename(begun.root)
    begun.go_on(spark)
    begun.assert_exact("pairs")
    begun.assert_exact("high")


def test_state_without_sparks_checkpoint_is_refused_and_left_as_it_was(
    begun: Begun, spark: SparkSession
) -> None:
    shutil.rmtree(begun.checkpoint / "spark")
    with pytest.raises(StateError, match=r"at batch 1, but Spark's own checkpoint .* was deleted"):
        begun.go_on(spark)
    manifest = newest(PosixStorage(begun.checkpoint))
    assert manifest is not None
    assert manifest.batch == 1


def test_sparks_checkpoint_without_state_is_refused(begun: Begun, spark: SparkSession) -> None:
    for folder in ("manifests", "blocks", "staged"):
        shutil.rmtree(begun.checkpoint / folder, ignore_errors=True)
    with pytest.raises(StateError, match="finished batch 1, but the state beside it is gone"):
        begun.go_on(spark)


def test_one_half_older_than_the_other_is_refused(begun: Begun, spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(begun.checkpoint / "spark", tmp_path / "older")
    begun.go_on(spark)
    shutil.rmtree(begun.checkpoint / "spark")
    (tmp_path / "older").rename(begun.checkpoint / "spark")
    with pytest.raises(StateError, match="restored without the other"):
        begun.go_on(spark)


def test_a_second_session_is_refused_in_this_process_and_in_another(
    begun: Begun, spark: SparkSession
) -> None:
    run = begun.start(spark, processingTime="1 hour")
    try:
        with pytest.raises(CheckpointInUseError, match=f"held by process {os.getpid()}"):
            begun.start(spark, availableNow=True)
        program = (
            "import sys; from pathlib import Path; from anabranch.state import PosixStorage, acquire\n"
            "try: acquire(PosixStorage(Path(sys.argv[1])))\n"
            "except Exception as error: print(type(error).__name__, error)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", program, str(begun.checkpoint)], capture_output=True, text=True, check=True
        ).stdout
        assert told.startswith("CheckpointInUseError")
        assert f"held by process {os.getpid()}" in told
        assert "stop that session first" in told
    finally:
        run.stop()
    begun.go_on(spark)  # the lock went with the run
    begun.assert_exact("pairs")


Change = Callable[[Begun], Text]


def _query(name: str, change: Callable[[str], str]) -> Change:
    def changed(begun: Begun) -> Text:
        queries = dict(begun.text.queries)
        queries[name] = change(queries[name])
        return begun.text.but(queries=queries)

    return changed


FITS_NOT = "windows or predicates"
REFUSED = {
    "a longer window": (_query("pairs", lambda t: t.replace("3 SECONDS", "4 SECONDS")), FITS_NOT),
    "another predicate": (_query("pairs", lambda t: f"{t} AND a.v < b.v"), FITS_NOT),
    "another filter": (_query("high", lambda t: t.replace("0.5", "0.4")), FITS_NOT),
    "another key": (_query("pairs", lambda t: t.replace("a.k = b.k", "a.id = b.id")), FITS_NOT),
    "a column that was not kept": (
        _query("pairs", lambda t: t.replace("SELECT", "SELECT a.ts AS t,")),
        "which its state did not keep",
    ),
    "another type of a column": (
        lambda b: b.text.but(
            streams={n: s.replace("v DOUBLE", "v FLOAT") for n, s in b.text.streams.items()}
        ),
        "was double so far and is float now",
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_that_the_state_does_not_fit_is_refused(
    change: str, begun: Begun, spark: SparkSession
) -> None:
    edit, message = REFUSED[change]
    with pytest.raises(StateError, match=message) as refused:
        begun.go_on(spark, edit(begun))
    assert "new checkpoint" in str(refused.value)


def test_a_shorter_select_list_continues_with_fewer_columns(begun: Begun, spark: SparkSession) -> None:
    text = _query("pairs", lambda t: t.replace(", a.v + b.v AS v", ""))(begun)
    begun.go_on(spark, text)
    files = [f for f in (begun.root / "pairs").glob("*.parquet") if "schema" not in f.name]
    rows = [pq.read_table(f).select(["a", "b"]) for f in files]
    assert_same_rows(pa.concat_tables(rows), begun.oracle("pairs", text))
    begun.assert_exact("high")


def test_more_sites_and_a_longer_lateness_change_no_result(begun: Begun, spark: SparkSession) -> None:
    streams = {n: s.replace("200 MILLISECONDS", "900 MILLISECONDS") for n, s in begun.text.streams.items()}
    begun.go_on(spark, begun.text.but(streams=streams, settings="SET sites = 7; SET slots = 2;"))
    begun.assert_exact("pairs")
    begun.assert_exact("high")


def test_an_added_query_starts_with_the_rows_that_come_from_now_on(begun: Begun, spark: SparkSession) -> None:
    added = "SELECT a.id AS a, b.id AS b FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"
    text = begun.text.but(queries={**begun.text.queries, "more": added})
    begun.go_on(spark, text)
    begun.assert_exact("pairs")
    begun.assert_exact("more", text, since=HALF)


def test_a_removed_query_leaves_the_others_alone_and_starts_anew_when_it_comes_back(
    begun: Begun, spark: SparkSession
) -> None:
    begun.go_on(spark, begun.text.but(queries={"high": begun.text.queries["high"]}))
    begun.assert_exact("high")


def test_a_stream_that_is_added_starts_at_its_beginning_and_the_others_go_on(
    begun: Begun, spark: SparkSession
) -> None:
    both = "SELECT a.id AS a, c.id AS c FROM a [RANGE 9 SECONDS], c [RANGE 9 SECONDS] WHERE a.k = c.k"
    text = begun.text.but(
        streams={"c": stream_c(begun), **begun.text.streams},
        queries={"third": "SELECT id, ts FROM c", "both": both, **begun.text.queries},
    )
    begun.go_on(spark, text)
    begun.assert_exact("pairs", text)
    begun.assert_exact("high", text)
    begun.assert_exact("third", text)


def test_streams_in_another_order_are_still_told_apart(begun: Begun, spark: SparkSession) -> None:
    begun.go_on(spark, begun.text.but(streams=dict(reversed(begun.text.streams.items()))))
    begun.assert_exact("pairs")
    begun.assert_exact("high")


def test_a_stream_can_be_removed_and_comes_back_from_its_beginning(begun: Begun, spark: SparkSession) -> None:
    only_b = begun.text.but(
        streams={"b": begun.text.streams["b"]}, queries={"high": begun.text.queries["high"]}
    )
    begun.go_on(spark, only_b)
    begun.assert_exact("high", only_b)
    back = begun.text.but(queries={"high": begun.text.queries["high"], "again": "SELECT id, v FROM a"})
    begun.go_on(spark, back)
    begun.assert_exact("high", back)
    begun.assert_exact("again", back)


def test_dataframes_without_names_keep_their_order_or_are_refused(
    original: Begun, spark: SparkSession, tmp_path: Path
) -> None:
    def session(*names: str) -> ab.Session:
        new = ab.Session(spark, tmp_path / "ck", sites=2, slots=2)
        flow = parse_flow(original.text.at(tmp_path))
        for name in names:
            files = original.work[name]
            reader = spark.readStream.schema(files.ddl).option("maxFilesPerTrigger", 2)
            new.stream(name, reader.parquet(str(files.path)), time="ts", lateness="200 milliseconds")
        for query in flow.queries:
            new.query(query.name, query.text, sink=ab.parquet(tmp_path / query.name))
        return new

    session("a", "b").start(availableNow=True).awaitTermination()
    with pytest.raises(StateError, match=r"were a, b, in this order, and are now b, a"):
        session("b", "a").start(availableNow=True)
    session("a", "b").start(availableNow=True).awaitTermination()
    assert_same_rows(tmp_path / "pairs", original.oracle("pairs", original.text))


def test_a_checkpoint_with_named_sources_is_refused_to_dataframes_without(
    begun: Begun, spark: SparkSession
) -> None:
    session = ab.Session(spark, begun.checkpoint)
    for name in ("a", "b"):
        files = begun.work[name]
        session.stream(name, spark.readStream.schema(files.ddl).parquet(str(files.path)), time="ts")
    session.query("high", begun.text.queries["high"], sink=ab.parquet(begun.root / "high"))
    with pytest.raises(StateError, match="tells its sources apart by name"):
        session.start(availableNow=True)

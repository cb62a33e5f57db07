"""A session that ran the first half of its input and ended well, to be continued in many ways."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.language.flow import parse_flow
from anabranch.language.oracle.oracle_sql import oracle_sql, oracle_table
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.stream_files import Workload
from anabranch.workloads.uniform import uniform_streams

BATCHES = 4
HALF = 2
STREAMS = ("a", "b", "c")


@dataclass(frozen=True)
class Text:
    """A flow in parts, so that tests can change them."""

    streams: Mapping[str, str]
    queries: Mapping[str, str]
    settings: str = "SET sites = 3; SET slots = 2;"

    def at(self, root: Path) -> str:
        """The flow file with its sinks below `root`."""
        queries = [f"CREATE QUERY {n} INTO parquet '{root / n}' AS {t};" for n, t in self.queries.items()]
        return "\n".join([self.settings, *self.streams.values(), *queries])

    def but(
        self,
        *,
        streams: Mapping[str, str] | None = None,
        queries: Mapping[str, str] | None = None,
        settings: str = "",
    ) -> Text:
        return Text(
            self.streams if streams is None else streams,
            self.queries if queries is None else queries,
            settings or self.settings,
        )


@dataclass(frozen=True)
class Begun:
    """A checkpoint with sinks; `work` now has more files than it has read."""

    root: Path
    work: Workload
    text: Text

    @property
    def checkpoint(self) -> Path:
        return self.root / "ck"

    def copy_to(self, root: Path) -> Begun:
        shutil.copytree(self.root, root, symlinks=True)
        return Begun(root, self.work, self.text)

    def go_on(self, spark: SparkSession, text: Text | None = None) -> ab.Run:
        run = self.start(spark, text, availableNow=True)
        run.awaitTermination()
        return run

    def start(self, spark: SparkSession, text: Text | None = None, **trigger: object) -> ab.Run:
        session = ab.Session(spark, self.checkpoint)
        session.load(parse_flow((text or self.text).at(self.root)))
        return session.start(**trigger)

    def assert_exact(self, query: str, text: Text | None = None, *, since: int = 0) -> None:
        """The sink of `query` holds what DuckDB gives over the files from `since` on."""
        assert_same_rows(self.root / query, self.oracle(query, text or self.text, since=since), what=query)

    def oracle(self, query: str, text: Text, *, since: int = 0) -> pa.Table:
        flow = parse_flow(text.at(self.root))
        streams = {s.name: s for s in flow.streams}
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, stream in streams.items():
                connection.execute(oracle_table(stream))
                files = [str(p) for p in sorted(self.work[name].path.glob("*.parquet"))[since:]]
                connection.from_parquet(files).insert_into(name)
            wanted = next(q for q in flow.queries if q.name == query)
            return connection.sql(oracle_sql(wanted, streams)).to_arrow_table()


def begin(root: Path, spark: SparkSession) -> Begun:
    """Run the first half, then lay out the second."""
    work = uniform_streams(
        root / "in", batches=BATCHES, rows_per_batch=20, key_space=10, disorder_us=200_000, names=STREAMS
    )
    hidden = [_hide(path) for s in work.streams for path in sorted(s.path.glob("*.parquet"))[HALF:]]
    streams = {
        s.name: f"CREATE STREAM {s.name} ({s.ddl}) FROM parquet '{s.path}' OPTIONS (maxFilesPerTrigger = 1) "
        "TIME ts LATENESS 200 MILLISECONDS;"
        for s in work.streams
    }
    queries = {
        "pairs": "SELECT a.id AS a, b.id AS b, a.v + b.v AS v FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] "
        "WHERE a.k = b.k",
        "high": "SELECT id, k, ts FROM b WHERE v > 0.5",
    }
    text = Text({n: s for n, s in streams.items() if n != "c"}, queries)
    begun = Begun(root / "begun", work, text)
    begun.go_on(spark)
    for path in hidden:
        path.rename(path.with_name(path.name.removeprefix(".")))
    return begun


def stream_c(begun: Begun) -> str:
    files = begun.work["c"]
    return (
        f"CREATE STREAM c ({files.ddl}) FROM parquet '{files.path}' OPTIONS (maxFilesPerTrigger = 1) "
        "TIME ts LATENESS 200 MILLISECONDS;"
    )


def _hide(path: Path) -> Path:
    return path.rename(path.with_name(f".{path.name}"))

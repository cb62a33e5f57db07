"""After a warm-up the first batch of a query compiles nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from anabranch.engine.warm_up import ROWS, made_up_rows, warm_up
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Stream
from anabranch.spark.start.warm_workers import MOST_QUERIES, of_each_pattern

_KINDS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38,0)"),
)

_FIRST_BATCHES = """
import sys, tempfile
from pathlib import Path
import numpy as np, pyarrow as pa
from numba.core.dispatcher import Dispatcher
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.warm_up import warm_up
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.spark.start.warm_workers import MOST_QUERIES, of_each_pattern

columns = (Column("k", "bigint"), Column("x", "double"), Column("ts", "timestamp"))
streams = [Stream(name, columns, "ts", 0) for name in "ab"]
by_name = {s.name: s for s in streams}
queries = [
    bind_query("pairs", "SELECT a.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] "
               "WHERE a.k = b.k AND a.x < b.x", by_name),
    bind_query("sums", "SELECT k, sum(x) AS s FROM a [RANGE 5 SECONDS] GROUP BY k", by_name),
]

def compiled():
    kernels = {d for m in list(sys.modules.values()) if getattr(m, "__name__", "").startswith("anabranch")
               for d in vars(m).values() if isinstance(d, Dispatcher)}
    return {(d.py_func.__module__, d.py_func.__name__, s) for d in kernels for s in d.signatures}

warm_up(streams, queries)
before = compiled()
draw = np.random.default_rng(1)
with tempfile.TemporaryDirectory() as root:
    run = LocalRun(Path(root), streams, queries)
    for batch in range(2):
        # Crowded but for one, in no order: that is sorted in another way.
        crowded = np.append(np.arange(999), 4_000_000)
        times = 1_000_000_000_000_000 + draw.permutation(crowded) + batch * 5_000_000
        run.batch({s.name: pa.table({"k": draw.integers(0, 9, 1000), "x": draw.random(1000),
                                     "ts": pa.array(times, pa.timestamp("us"))}) for s in streams})
    run.end_of_input()
    run.close()
names = [(module, name) for module, name, _ in before]
print(len(before), sorted(compiled() - before), sorted({n for n in names if names.count(n) > 1}), sep="; ")
"""


def test_a_warm_up_compiles_each_kernel_once_and_leaves_none_to_the_first_batches() -> None:
    told = subprocess.run([sys.executable, "-c", _FIRST_BATCHES], capture_output=True, text=True, check=True)
    before, compiled, twice = told.stdout.strip().split("; ")
    assert int(before) > 10
    assert compiled == "[]"
    assert twice == "[]"


def test_made_up_rows_have_values_of_every_type() -> None:
    stream = Stream("s", tuple(Column(f"c{n}", kind) for n, kind in enumerate(_KINDS)), "c10")
    rows = made_up_rows(stream)
    assert rows.num_rows == ROWS
    assert all(column.null_count == 0 for column in rows.columns)


def test_a_query_that_cannot_be_warmed_up_is_left_to_its_first_batch() -> None:
    stream = Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts")
    other = Stream("s", (Column("other", "bigint"), Column("ts", "timestamp")), "ts")
    query = bind_query("q", "SELECT k FROM s", {"s": stream})
    warm_up([other], [query])


def test_made_up_rows_never_reach_the_sink_of_a_query(tmp_path: Path) -> None:
    flow = parse_flow(
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP) FROM parquet 'in' TIME ts;"
        f"CREATE QUERY q INTO parquet '{tmp_path / 'out'}' AS SELECT k FROM s;"
    )
    warm_up(flow.streams, flow.queries)
    assert not (tmp_path / "out").exists()


def test_of_thousands_of_queries_that_differ_in_constants_one_warms_workers_up() -> None:
    streams = {"s": Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts")}
    texts = [f"SELECT {'k' if i % 3 else 'k + 1 AS k'} FROM s WHERE k = {i}" for i in range(3000)]
    queries = [bind_query(f"q{i}", text, streams) for i, text in enumerate(texts)]
    assert {query.name for query in of_each_pattern(queries)} == {"q0", "q1"}
    others = [bind_query(f"n{i}", f"SELECT k AS k{i} FROM s", streams) for i in range(100)]
    assert len(of_each_pattern(others)) == MOST_QUERIES

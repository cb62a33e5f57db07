"""What one more rule costs: sessions with different numbers of rules in turns, without Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.workloads.rules import plain_join, rule, rule_streams
from anabranch.workloads.stream_files import StreamFiles

WARM_UP = 4
KINDS = {"id": "bigint", "k": "bigint", "item": "bigint", "price": "double", "ts": "timestamp"}
STREAMS = {name: Stream(name, tuple(Column(*c) for c in KINDS.items()), "ts") for name in "ab"}


@dataclass(frozen=True, slots=True)
class Marginal:
    """CPU time of a batch, medians: of one query with as many results, of some rules, and of more of them."""

    few: int
    more: int
    one_ms: float
    few_ms: float
    more_ms: float

    @property
    def share(self) -> float:
        """What the next rule adds, of what one query takes; below zero if that is lost in the noise."""
        return (self.more_ms - self.few_ms) / (self.more - self.few) / self.one_ms


def run_marginal(
    scratch: Path, *, few: int, more: int, window_us: int, one_us: int, rows: int, batches: int
) -> Marginal:
    """Run the three sessions over rows for `few` rules each, batch by batch in turns.

    Parameters
    ----------
    window_us, one_us
        The longest window of the rules, and that of the one query.
    """
    works = [
        rule_streams(scratch / f"in{n}", rules=n, batches=batches, rows_per_batch=rows) for n in (few, more)
    ]
    texts = [[rule(i, rules=n, window_us=window_us) for i in range(n)] for n in (few, more)]
    runs = [
        (works[0], _session(scratch / "one", [plain_join(window_us=one_us)])),
        *((w, _session(scratch / f"rules{len(t)}", t)) for w, t in zip(works, texts, strict=True)),
    ]
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(batches):
        for (work, run), times in zip(runs, taken, strict=True):
            tables = _rows(work.streams, number)
            began = time.process_time()
            run.batch(tables)
            times.append(time.process_time() - began)
    for _, run in runs:
        run.close()
    one, some, many = (1000 * statistics.median(times[min(WARM_UP, batches - 1) :]) for times in taken)
    return Marginal(few, more, one, some, many)


def _session(root: Path, texts: Sequence[str]) -> LocalRun:
    queries = [bind_query(f"q{i}", text, STREAMS) for i, text in enumerate(texts)]
    sink = ParquetSink(root / "out")
    return LocalRun(
        root / "checkpoint",
        tuple(STREAMS.values()),
        queries,
        sinks=dict.fromkeys((q.name for q in queries), shared(sink) if len(queries) > 1 else sink),
        settings=Settings(sites=2, slots=2, sharing="open" if len(queries) > 1 else "off"),
    )


def _rows(streams: Sequence[StreamFiles], number: int) -> dict[str, pa.Table]:
    return {s.name: pq.read_table(s.path / f"{number:06d}.parquet") for s in streams}

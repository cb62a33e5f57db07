"""Members as a worker knows them: an index that follows those that come and go."""

from __future__ import annotations

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.results.live_split import LiveSplit
from anabranch.plan.logical import Member, Query
from anabranch.queries.grouping.groups import group_of
from anabranch.queries.grouping.representative import joining_member
from anabranch.queries.shape import Shape
from anabranch.testing.stream_model import scratch
from tests.queries.generated_groups import STREAMS, A, B, bound

OPEN = Settings(sites=1, slots=1, sharing="open")
TEXT = "SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"


def representative() -> Query:
    return group_of([Shape(bound(TEXT, "base"), STREAMS)], is_open=True)


def member(text: str, name: str, since: int | None = None) -> Member | None:
    return joining_member(representative(), Shape(bound(text, name), STREAMS), is_open=True, since=since)


def test_members_with_one_select_list_and_sink_are_one_channel() -> None:
    found = representative()
    assert found.split is not None
    split = LiveSplit(found.split)
    came = [member(f"{TEXT} AND a.v > {i}", f"q{i}") for i in range(5)]
    split.join(m for m in came if m is not None)
    other = member(TEXT.replace("a.id AS x", "a.id + b.id AS x"), "other")
    assert other is not None
    split.join([other])
    assert len(split.projections) == 2
    assert len(split.channels) == 7  # each has a sink of its own
    ranks = split.ranks_of(pa.array(range(7)).to_numpy())
    assert [split.channel_at(rank).query.name for rank in ranks] == [
        "base",
        *(f"q{i}" for i in range(5)),
        "other",
    ]
    split.leave(["q1", "nobody"])
    assert set(split.present()) == {"base", "q0", "q2", "q3", "q4", "other"}
    assert len(split.filter) == 6
    assert split.numbers(["other", "q1"]) == [6]


def test_a_query_joins_only_where_the_representative_has_all_it_needs() -> None:
    assert member(f"{TEXT} AND a.s LIKE 'a%' AND a.id < b.id", "narrow") is not None
    assert member(TEXT.replace("RANGE 5 SECONDS], b", "RANGE 6 SECONDS], b"), "longer") is None
    assert member(TEXT.replace("a.id AS x", "upper(a.s) AS x"), "computed") is None
    narrow = group_of([Shape(bound(f"{TEXT} AND a.v > 1", "narrow"), STREAMS)])
    for text, joins in ((f"{TEXT} AND a.v > 2", True), (f"{TEXT} AND a.v > 0", False), (TEXT, False)):
        found = joining_member(narrow, Shape(bound(text, "q"), STREAMS), is_open=False, since=3)
        assert (found is not None) == joins, text


def test_a_member_is_replaced_and_goes_on_where_only_its_columns_change() -> None:
    with scratch() as root:
        sinks = {"base": MemorySink(), "more": MemorySink()}
        queries = [bound(TEXT, "base"), bound(f"{TEXT} AND a.v > 0", "more")]
        run = LocalRun(
            root, (A, B), queries, sinks=sinks, settings=Settings(sites=1, slots=1, sharing="open")
        )
        empty = {name: pa.table({c.name: [] for c in s.columns}) for name, s in STREAMS.items()}
        inputs = run.loop.layout.inputs
        run.batch(empty)
        run.replace("more", f"{TEXT} AND a.v > 0".replace("a.id AS x", "b.id AS x"))
        run.batch(empty)
        assert run.loop.catalog.state_of["more"].since == 0
        run.replace("more", f"{TEXT} AND a.v > 1")
        run.batch(empty)
        assert run.loop.catalog.state_of["more"].since == 3
        assert run.loop.layout.inputs is inputs
        run.close()
        run = LocalRun(
            root, (A, B), queries, sinks=sinks, settings=Settings(sites=1, slots=1, sharing="open")
        )
        again = run.loop.catalog.answered_by("more")
        assert again is not None
        assert "> 1" in again.text, "what was replaced stays so"
        run.close()

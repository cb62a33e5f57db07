"""Which references share an input, how inputs are routed, and what they keep."""

from __future__ import annotations

from anabranch.language.flow import bind_query
from anabranch.plan.inputs import field_column
from anabranch.plan.logical import Field
from tests.plan.queries import STREAMS, layout, query

K = Field("`k`", "bigint")
J = Field("`j`", "bigint")


def test_queries_on_the_same_key_share_inputs_and_merge_their_fields() -> None:
    one = query("a.k = b.k", select="a.v", name="one", number=2)
    two = query("a.k = b.k AND a.j < b.j", select="b.s", name="two", number=2)
    laid = layout(one, two)
    assert len(laid.inputs) == 2
    assert laid.queries[0].inputs == laid.queries[1].inputs
    assert [field_column(f) for f in laid.inputs[0].fields] == ["`v`::int", "`j`::bigint"]
    assert {field_column(f) for f in laid.inputs[1].fields} == {"`j`::bigint", "`s`::string"}


def test_references_of_a_self_join_share_an_input_whatever_their_windows() -> None:
    asked = bind_query("q", "SELECT a.v FROM x [NOW] a, x [RANGE 9 SECONDS] b WHERE a.k = b.k", STREAMS)
    assert len(layout(asked).inputs) == 1


def test_another_key_or_filter_or_start_makes_another_input() -> None:
    base = query("a.k = b.k", name="base", number=2)
    other_key = query("a.j = b.j", name="key", number=2)
    filtered = query("a.k = b.k AND a.v > 1", name="filter", number=2)
    later = query("a.k = b.k", name="later", number=2)
    assert len(layout(base, other_key).inputs) == 4
    assert len(layout(base, filtered).inputs) == 3
    assert len(layout(base, later, later=7).inputs) == 4


def test_a_key_shared_by_all_routes_and_needs_no_hash_of_its_own() -> None:
    laid = layout(query("a.k = b.k AND b.k = c.k"))
    assert laid.queries[0].routing == (0,)
    assert all(i.route.keys == (K,) and i.keys == () and i.route.pin is None for i in laid.inputs)


def test_a_chain_on_different_keys_has_an_input_for_every_station_of_a_stream() -> None:
    laid = layout(query("a.k = b.k AND b.j = c.j"))
    (routed,) = laid.queries
    assert routed.routing == ()
    a, b_first, b_second, c = laid.inputs
    assert [i.route.keys for i in laid.inputs] == [(K,), (K,), (J,), (J,)]
    assert (a.alternatives, c.alternatives) == ((a.state,), (c.state,))
    assert b_first.alternatives == b_second.alternatives == (b_first.state, b_second.state)
    assert [i.is_sent for i in laid.inputs] == [True, True, False, True], "rows of b are sent once"
    assert b_first.keys == b_second.keys == b_first.route.required == (K, J), "and travel alike"
    assert (routed.input_at("b", 0), routed.input_at("b", 1)) == (b_first.id, b_second.id)


def test_chains_with_the_same_stations_share_the_rows_that_arrive_there() -> None:
    one = query("a.k = b.k AND b.j = c.j", name="one")
    two = query("a.k = b.k AND b.j = c.j AND a.v < c.v", name="two", select="b.v")
    assert len(layout(one, two).inputs) == 4


def test_a_join_of_two_streams_does_not_share_the_part_of_a_stream_that_a_station_gets() -> None:
    chain = query("a.k = b.k AND b.j = c.j", name="chain")
    pair = query("a.k = b.k", name="pair", number=2)
    shared = {i.state for i in layout(chain).inputs} & {i.state for i in layout(pair).inputs}
    assert not shared


def test_queries_without_a_shared_key_are_pinned_apart() -> None:
    one, two = (query("a.v < b.v", name=name, number=2) for name in ("one", "two"))
    assert len({i.route.pin for i in layout(one, two).inputs}) == 2


def test_a_query_of_one_stream_is_spread() -> None:
    (only,) = layout(bind_query("q", "SELECT v FROM x", STREAMS)).inputs
    assert (only.route.keys, only.route.pin) == ((), None)


def test_several_shared_keys_route_together_and_travel_apart() -> None:
    laid = layout(query("a.k = b.k AND a.j = b.j", number=2))
    assert laid.queries[0].routing == (0, 1)
    assert [len(i.keys) for i in laid.inputs] == [2, 2]


def test_a_wide_key_is_kept_in_full() -> None:
    laid = layout(query("a.s = b.s", number=2))
    assert all(Field("`s`", "string") in i.fields for i in laid.inputs)


def test_names_of_inputs_do_not_depend_on_the_order_of_queries() -> None:
    one = query("a.k = b.k", name="one", number=2)
    two = query("a.j = b.j", name="two", number=2)
    assert {i.state for i in layout(one, two).inputs} == {i.state for i in layout(two, one).inputs}

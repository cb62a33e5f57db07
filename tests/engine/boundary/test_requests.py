"""Requests of users wait until a published step has carried them out; those without sense are refused."""

from __future__ import annotations

import pytest

from anabranch.adapt.tracks.tracks import Migration
from anabranch.engine.boundary.requests import Requests
from anabranch.engine.settings import Settings
from anabranch.errors import ConfigError
from anabranch.plan.cost.migration_cost import Strategy
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import running


def asked(site: int) -> Migration:
    return Migration("q", site, "((a b) c)", Strategy.MOVING_STATE)


def test_what_came_while_a_step_ran_waits_for_the_next_one() -> None:
    requests = Requests(Settings(sites=3))
    requests.migrate([asked(0), asked(1)])
    taken = requests.migrations
    requests.migrate([asked(2)])
    requests.carried_out(taken, (), (), postponed=[asked(1)])
    assert requests.migrations == (asked(1), asked(2))


def test_a_refused_setting_changes_none_of_those_given_with_it() -> None:
    requests = Requests(Settings(sites=3))
    with pytest.raises(ConfigError, match="end_of_input cannot change"):
        requests.change({"sites": 5, "end_of_input": True}, cores=2)
    assert requests.settings.sites == 3


def test_zero_sites_are_as_many_as_at_the_start() -> None:
    requests = Requests(Settings(sites=3, slots=2))
    requests.change({"slots": 0}, cores=7)
    assert requests.settings.slots == 7


@pytest.mark.parametrize(
    ("query", "plan", "site", "strategy", "why"),
    [
        ("r", "((a b) c)", 0, "moving_state", "there is no join 'r': choose from q"),
        ("q", "((a b) c)", 2, "moving_state", "there is no site 2: choose from 0 to 1"),
        ("q", "((a b) c)", 0, "by_hand", "strategy 'by_hand': choose from"),
        ("q", "(a b)", 0, "moving_state", "must join each of a, b, c once"),
        ("q", "((a b", 0, "moving_state", "plan"),
    ],
)
def test_a_change_of_plans_without_sense_is_refused_with_what_would_have_it(
    query: str, plan: str, site: int, strategy: str, why: str
) -> None:
    settings = Settings(sites=2, slots=1)
    with running(STREAMS, [joined("a", "b", "c")], settings) as run, pytest.raises(ConfigError, match=why):
        run.loop.migrate(query, plan, site, strategy)


def test_a_parallel_track_that_would_never_end_is_refused() -> None:
    with (
        running(STREAMS, [joined("a", "b", "c", window=None)], Settings(sites=1, slots=1)) as run,
        pytest.raises(ConfigError, match="would not end"),
    ):
        run.loop.migrate("q", "((b c) a)", 0, "parallel_track")

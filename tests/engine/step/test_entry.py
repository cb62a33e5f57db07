"""A batch must continue the state: anything else is refused with a word about what happened."""

from __future__ import annotations

import pytest

from anabranch.engine.step.entry import check_entry
from anabranch.errors import StateError
from anabranch.state import NO_PARENT, Manifest

AT_5 = Manifest(5, 0, 9, NO_PARENT, 1, "try", offsets="o5", source_id="spark-1", committed_at=0.0)


@pytest.mark.parametrize(("batch", "offsets"), [(5, "o5"), (6, "o6")], ids=["replay", "next"])
def test_the_next_batch_and_a_replay_of_the_last_one_may_enter(batch: int, offsets: str) -> None:
    before = AT_5
    check_entry(AT_5, batch, offsets=offsets, source_id="spark-1")
    assert before == AT_5


def test_the_first_batch_of_a_new_checkpoint_may_enter_and_no_other() -> None:
    check_entry(None, 0, offsets="o0", source_id="spark-1")
    with pytest.raises(StateError, match="wants to run batch 1, but the state is at batch -1"):
        check_entry(None, 1, offsets="o1", source_id="spark-1")


@pytest.mark.parametrize(
    ("batch", "offsets", "source_id", "why"),
    [
        (7, "o7", "spark-1", "wants to run batch 7, but the state is at batch 5"),
        (4, "o4", "spark-1", "wants to run batch 4, but the state is at batch 5"),
        (5, "other", "spark-1", "committed with other source offsets"),
        (6, "o6", "spark-2", "was deleted or replaced"),
    ],
)
def test_a_batch_that_would_skip_or_repeat_rows_is_refused(
    batch: int, offsets: str, source_id: str, why: str
) -> None:
    with pytest.raises(StateError, match=why):
        check_entry(AT_5, batch, offsets=offsets, source_id=source_id)

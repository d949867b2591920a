import re
from typing import Any

import pytest

from app.board.messages import Plan
from app.compare.problems import LARGEST_SEED
from app.scheduling import Limits
from mars_tasks import TASKS, sample


def test_the_families_take_turns() -> None:
    asked = Plan(count=8, first=40).problems
    assert [problem.task for problem in asked] == [*TASKS, *list(TASKS)[:2]]
    assert [problem.seed for problem in asked] == [40] * 6 + [41] * 2


def test_one_family_alone() -> None:
    asked = Plan(count=5, task="logic", first=7).problems
    assert asked == [sample("logic", seed) for seed in range(7, 12)]


def test_seeds_that_would_be_too_large_begin_again() -> None:
    asked = Plan(count=5, task="logic", first=LARGEST_SEED - 1).problems
    assert [problem.seed for problem in asked] == [LARGEST_SEED - 1, LARGEST_SEED, 0, 1, 2]


def test_a_slider_may_send_whole_floats() -> None:
    sent: dict[str, Any] = {"count": 10.0, "first": 3.0, "max_new_tokens": 64.0}
    assert Plan(**sent) == Plan(count=10, first=3, max_new_tokens=64)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"count": 4}, "The number of problems must be a whole number from 5 to 50, got 4"),
        ({"count": 7.5}, "The number of problems must be a whole number from 5 to 50, got 7.5"),
        ({"count": True}, "The number of problems must be a whole number"),
        ({"first": -1}, "The first seed must be a whole number from 0 to 999999, got -1"),
        ({"task": "chess"}, "The family must be one of all, word_problems"),
        ({"task": ["logic"]}, "The family must be one of all, word_problems"),
        ({"max_new_tokens": 8}, "The length limit must be between 16 and 64"),
    ],
)
def test_an_impossible_plan_gets_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Plan(**{"count": 10, "first": 0, "max_new_tokens": 64, "limits": Limits(new_tokens=64), **wrong})

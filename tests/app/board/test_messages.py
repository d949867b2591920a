import re
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.stats.intervals import wilson_interval
from app.board.messages import BoardLane, Plan, ProblemDone, pairs, standing
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
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


def lane(verdicts: dict[int, bool], *, seconds: float = 2.0) -> BoardLane:
    """A lane with these verdicts; no model is needed to say where it stands."""
    model: Any = SimpleNamespace(engine=None, kinds={"masks"}, block_size=4)
    found = BoardLane(LaneRequest(key="a", title="A", choice=LaneChoice(checkpoint="any"), checkpoint=model), 0.9)
    for number, right in verdicts.items():
        counts: Any = {"tokens": 10 + number, "passes": 5, "seconds": seconds}
        found.answers[number] = ProblemDone(
            kind="wrote", lane="a", problem=number, text="", right=right, reason="stop", **counts
        )
    return found


def test_a_row_counts_finished_problems() -> None:
    base, this = lane({0: True, 7: True}), lane({0: True, 1: True, 2: False, 5: True}, seconds=1.0)
    found = standing(this, base)
    assert (found["n"], found["right"]) == (4, 3)
    assert found["interval"] == pytest.approx(wilson_interval(3, 4), abs=1e-5)
    assert (found["tokensPerProblem"], found["tokensPerForward"], found["tokensPerSecond"]) == (12, 2.4, 12)
    assert found["speedup"] == pytest.approx((10 / 1.0) / (10 / 2.0)), "on the problem that both have finished"
    own, empty = standing(base, base), standing(lane({}), base)
    assert (own["speedup"], own["pairs"]) == (None, None)
    unknown = ("interval", "tokensPerForward", "tokensPerProblem", "tokensPerSecond", "speedup")
    assert {empty[name] for name in unknown} == {None}  # type: ignore[literal-required]


def test_pairs_are_the_problems_of_both() -> None:
    this = lane({0: True, 1: True, 2: False, 3: False, 9: True})
    base = lane({0: True, 1: False, 2: True, 3: False, 7: True})
    assert pairs(this, base) == {"n": 4, "both": 1, "onlyThis": 1, "onlyBaseline": 1, "p": 1.0}


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (0, 5, 2 / 32), (6, 0, 2 / 64), (3, 1, 10 / 16)])
def test_the_p_value_is_exact_mcnemars(gained: int, lost: int, p: float) -> None:
    n = gained + lost
    this = lane({number: number < gained for number in range(n)})
    base = lane({number: number >= gained for number in range(n)})
    assert pairs(this, base)["p"] == pytest.approx(p)

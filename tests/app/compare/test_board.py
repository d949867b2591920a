import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.stats.intervals import share
from app.compare import board
from app.compare.board import BoardLane, Message, Plan, ProblemDone, pairs, standing
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.compare.problems import LARGEST_SEED
from app.compare.runner import Runner
from app.models.manager import Models
from app.scheduling import AdmissionQueue, Limits, Sessions
from mars.checkpoint import Checkpoint
from mars.schema import checked
from mars_tasks import TASKS, sample
from tests.app.live_runs import PATIENCE_SECONDS, event_stream

PLAN = Plan(count=5, task="logic", first=0, max_new_tokens=96)
AR = LaneChoice(checkpoint="ar", decoder="autoregressive")
MARS = LaneChoice(checkpoint="mars")
BROKEN = LaneChoice(checkpoint="broken")
MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner(make_scholar: Callable[..., Checkpoint]) -> MakeRunner:
    known = {
        "ar": make_scholar("ar", PLAN.problems, {0, 1}, masks=False),
        "mars": make_scholar("mars", PLAN.problems, {1, 2}),
    }

    def load(name: str) -> Checkpoint:
        if name not in known:
            raise ValueError("/models/broken/config.json is missing")
        return known[name]

    def runner(**more: Checkpoint) -> Runner:
        known.update(more)
        return Runner(Models({name: name for name in (*known, "broken")}, load), AdmissionQueue(), Sessions())

    return runner


def start(runner: Runner, *choices: LaneChoice, session: str = "me") -> str:
    return board.start(runner, session, PLAN, choices, 0.8)


def written(runner: Runner, identity: str) -> str:
    """What a board has written so far."""
    return event_stream(runner, identity).behind(0)


def over(runner: Runner, identity: str) -> str:
    """A board, once it is over."""
    found = event_stream(runner, identity)
    assert found.result(PATIENCE_SECONDS) is None
    assert found.closed
    return found.behind(0)


def score(runner: Runner, *choices: LaneChoice) -> str:
    return over(runner, start(runner, *choices))


def read(value: str) -> list[dict[str, Any]]:
    """The messages, which are what the schema says."""
    found = [json.loads(line) for line in value.splitlines()]
    for message in found:
        checked(Message, message)
    return found


def of_kind(value: str, kind: str) -> list[dict[str, Any]]:
    return [message for message in read(value) if message["kind"] == kind]


def closing(value: str) -> tuple[str, str]:
    message = of_kind(value, "state")[-1]
    return message["state"], message["sentence"]


def test_every_lane_writes_every_problem_once(make_runner: MakeRunner) -> None:
    runner = make_runner()
    identity = start(runner, AR, MARS)
    found = over(runner, identity)
    opening = read(found)[0]
    assert [(lane["key"], lane["family"]) for lane in opening["lanes"]] == [("a", "ar"), ("b", "masks")]
    assert [(p["prompt"], p["seed"], p["task"], p["family"]) for p in opening["problems"]] == [
        (problem.prompt, problem.seed, "logic", "Logic") for problem in PLAN.problems
    ]
    wrote = of_kind(found, "wrote")
    assert len(wrote) == 10
    right = {(message["lane"], message["problem"]) for message in wrote if message["right"]}
    assert right == {("a", 0), ("a", 1), ("b", 1), ("b", 2)}
    assert [message["problem"] for message in of_kind(found, "writing")] == [*range(5)]
    rows = {row["lane"]: row for row in of_kind(found, "score")}
    assert rows["a"]["n"] == rows["b"]["n"] == 5
    assert (rows["a"]["tokensPerForward"], rows["a"]["pairs"]) == (1.0, None)
    assert rows["b"]["tokensPerForward"] > 1.5
    assert rows["b"]["speedup"] == pytest.approx(rows["b"]["tokensPerSecond"] / rows["a"]["tokensPerSecond"], rel=1e-3)
    assert closing(found) == ("done", "Done. AR: 2 of 5 right. MARS: 2 of 5 right.")
    assert not runner.sessions.live("me")
    assert runner.queue.counts()["active"] == 0


def test_the_ar_lane_is_the_baseline(make_runner: MakeRunner) -> None:
    found = score(make_runner(), MARS, AR)
    assert of_kind(found, "met")[0]["baseline"] == "b"
    rows = {row["lane"]: row for row in of_kind(found, "score")}
    assert rows["a"]["pairs"] == {"n": 5, "onlyBaseline": 1, "onlyThis": 1}


def test_a_lane_that_cannot_write_says_why(make_runner: MakeRunner) -> None:
    masks = LaneChoice(checkpoint="ar", decoder="sliding_window")
    found = score(make_runner(), AR, BROKEN, masks)
    problems = [lane["problem"] for lane in of_kind(found, "met")[0]["lanes"]]
    assert problems[0] is None
    assert problems[1] == "config.json of broken is missing."
    assert "not trained to fill masks" in problems[2]
    assert closing(found) == ("done", "Done. AR: 2 of 5 right.")


def test_a_lane_takes_all_problems_or_none(make_runner: MakeRunner, make_scholar: Callable[..., Checkpoint]) -> None:
    """Its context has room for the first prompt, but not for the longest one."""
    short = make_scholar("short", PLAN.problems, set(), masks=False)
    first, *others = (len(short.encode(problem.prompt)) for problem in PLAN.problems)
    assert first < max(others)
    short.engine.context_length = max(others) - 1 + PLAN.max_new_tokens
    found = score(make_runner(short=short), MARS, LaneChoice(checkpoint="short", decoder="autoregressive"))
    [_, problem] = [lane["problem"] for lane in of_kind(found, "met")[0]["lanes"]]
    assert f"The prompt is {max(others)} tokens long for short" in problem
    assert closing(found) == ("done", "Done. MARS: 2 of 5 right.")


def test_without_a_writing_lane_the_board_fails(make_runner: MakeRunner) -> None:
    state, sentence = closing(score(make_runner(), BROKEN))
    assert state == "failed"
    assert sentence.startswith("MARS cannot write: ")


def test_a_draft_is_paired_with_its_target(make_runner: MakeRunner) -> None:
    drafted = LaneChoice(checkpoint="ar", decoder="speculative", draft="mars")
    found = score(make_runner(), drafted)
    assert closing(found) == ("done", "Done. Draft model: 2 of 5 right.")


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
        ({"max_new_tokens": 8}, "The length limit must be a whole number between 16 and 64"),
    ],
)
def test_an_impossible_plan_gets_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Plan(**{"count": 10, "first": 0, "max_new_tokens": 64, "limits": Limits(new_tokens=64), **wrong})


def lane(verdicts: dict[int, bool], *, seconds: float = 2.0) -> BoardLane:
    """A lane with these verdicts; no model is needed to say where it stands."""
    model: Any = SimpleNamespace(engine=None, kinds={"masks"}, block_size=4, place="cpu")
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
    assert found["interval"] == pytest.approx([share(3, 4).low, share(3, 4).high], abs=1e-5)
    assert (found["tokensPerProblem"], found["tokensPerForward"], found["tokensPerSecond"]) == (12, 2.4, 12)
    assert found["speedup"] == pytest.approx((10 / 1.0) / (10 / 2.0)), "on the problem that both have finished"
    own, empty = standing(base, base), standing(lane({}), base)
    assert (own["speedup"], own["pairs"]) == (None, None)
    unknown = ("interval", "tokensPerForward", "tokensPerProblem", "tokensPerSecond", "speedup")
    assert {empty[name] for name in unknown} == {None}  # type: ignore[literal-required]


def test_pairs_are_the_problems_of_both() -> None:
    this = lane({0: True, 1: True, 2: False, 3: True, 4: True, 9: True})
    base = lane({0: True, 1: False, 2: True, 3: False, 4: False, 7: True})
    assert pairs(this, base) == {"n": 5, "onlyThis": 3, "onlyBaseline": 1}

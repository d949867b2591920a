import json
from collections.abc import Callable
from typing import Any

import pytest

from app.board import scoring
from app.board.messages import Message, Plan
from app.compare.lane_choice import LaneChoice
from app.compare.runner import Runner
from app.models.manager import Models
from app.scheduling import AdmissionQueue, Sessions
from mars.checkpoint import Checkpoint
from mars.schema import checked
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
    return scoring.start(runner, session, PLAN, choices, 0.8)


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
    assert rows["a"]["pairs"] == {"n": 5, "both": 1, "onlyBaseline": 1, "onlyThis": 1, "p": 1.0}


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

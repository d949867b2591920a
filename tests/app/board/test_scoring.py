from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from app.board import scoring
from app.board.lane import BATCH, BoardLane, Plan
from app.scheduling import AdmissionQueue, LiveRun
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars_tasks import Problem

MakeScholar = Callable[..., Checkpoint]
PLAN = Plan(count=10, task="logic", first=0)


class Contest:
    """An AR lane that knows problems 0 to 4, and a MARS lane that follows the slider and knows 3 to 6."""

    def __init__(self, make_scholar: MakeScholar, seconds: float = 0.004) -> None:
        self.asked: list[Problem] = PLAN.problems
        self.queue = AdmissionQueue()
        self.live = LiveRun(self.queue.join(), 0.8)
        self.lanes = [
            self.lane("a", "autoregressive", make_scholar("ar", self.asked, range(5)), None),
            self.lane("b", "sliding_window", make_scholar("mars", self.asked, range(3, 7), seconds=seconds), 0.8),
        ]

    def lane(self, key: str, decoder: str, checkpoint: Checkpoint, threshold: float | None) -> BoardLane:
        settings = DecodingSettings(block_size=4, threshold=threshold, max_new_tokens=96)
        control = self.live.control(None, follows=threshold is not None)
        return BoardLane(key, key.upper(), checkpoint, decoder, settings, control)

    def steps(self, now: Callable[[], float] = lambda: 0.0) -> Iterator[list[dict[str, Any]]]:
        for step in scoring.score(self.lanes, self.lanes[0], self.asked, self.live, self.queue, now):
            yield list(step.messages)

    def messages(self, **options: Any) -> list[dict[str, Any]]:
        return [message for step in self.steps(**options) for message in step]


@pytest.fixture
def contest(make_scholar: MakeScholar) -> Contest:
    return Contest(make_scholar)


def of_kind(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message for message in messages if message["kind"] == kind]


def test_every_lane_writes_every_problem_once(contest: Contest) -> None:
    wrote = of_kind(contest.messages(), "wrote")
    assert sorted((message["lane"], message["problem"]) for message in wrote) == [
        (key, number) for key in "ab" for number in range(10)
    ]
    right = {(message["lane"], message["problem"]) for message in wrote if message["right"]}
    assert right == {("a", number) for number in range(5)} | {("b", number) for number in range(3, 7)}


def test_all_lanes_finish_a_batch_first(contest: Contest) -> None:
    open_now: set[tuple[str, int]] = set()
    for message in contest.messages():
        if message["kind"] == "writing":
            assert not {number for _, number in open_now} - set(message["problems"])
            open_now |= {(message["lane"], number) for number in message["problems"]}
        elif message["kind"] == "wrote":
            open_now.remove((message["lane"], message["problem"]))
    assert not open_now


def test_the_last_rows_are_the_whole_table(contest: Contest) -> None:
    messages = contest.messages()
    ar, mars = {m["lane"]: m for m in of_kind(messages, "score")}.values()
    assert (ar["n"], ar["right"], mars["n"], mars["right"]) == (10, 5, 10, 4)
    assert mars["pairs"] == {"n": 10, "both": 2, "onlyBaseline": 3, "onlyThis": 2, "p": 1.0}
    assert ar["pairs"] is None
    assert mars["tokensPerForward"] > 1.5
    assert ar["tokensPerForward"] == 1.0
    assert mars["speedup"] == pytest.approx(mars["tokensPerSecond"] / ar["tokensPerSecond"], rel=1e-3)
    assert not mars["turned"]
    assert messages[-1]["sentence"] == "Done. A: 5 of 10 right. B: 4 of 10 right."
    assert messages[-1]["state"] == "done"


def test_lanes_advance_by_their_model_time(make_scholar: MakeScholar) -> None:
    slow = Contest(make_scholar, seconds=10.0)
    first = [message["lane"] for message in of_kind(slow.messages(), "wrote")][:BATCH]
    assert first == ["a"] * BATCH


def test_stopping_counts_nothing_unfinished(contest: Contest) -> None:
    seen: list[dict[str, Any]] = []
    for step in contest.steps():
        seen += step
        if of_kind(step, "wrote") and not contest.live.stopped:
            contest.live.stop()
    wrote, [*_, last] = of_kind(seen, "wrote"), of_kind(seen, "state")
    assert 0 < len(wrote) < 20
    assert last["state"] == "stopped"
    assert last["sentence"].startswith("Stopped. A: ")
    rows = {message["lane"]: message for message in of_kind(seen, "score")}
    assert sum(row["n"] for row in rows.values()) == len(wrote)
    assert rows["a"]["tokensPerSecond"] is None


def test_the_slider_acts_from_the_next_pass(contest: Contest) -> None:
    seen: list[dict[str, Any]] = []
    for step in contest.steps():
        seen += step
        if of_kind(step, "wrote"):
            contest.live.slider.threshold = None
    rows = {message["lane"]: message for message in of_kind(seen, "score")}
    assert (rows["b"]["turned"], rows["b"]["threshold"]) == (True, None)
    assert (rows["a"]["turned"], rows["a"]["threshold"]) == (False, None)


def test_news_without_an_outcome_comes_now_and_then(contest: Contest) -> None:
    quiet = len(of_kind(contest.messages(), "score"))
    clock = count(step=scoring.MESSAGE_SECONDS)
    contest.lanes = [
        contest.lane(lane.key, lane.decoder, lane.checkpoint, lane.settings.threshold) for lane in contest.lanes
    ]
    assert len(of_kind(contest.messages(now=lambda: next(clock)), "score")) > 3 * quiet


def test_stopping_ends_the_warm_up(contest: Contest) -> None:
    contest.live.stop()
    scoring.warm_up(contest.lanes[0], contest.asked, contest.live, contest.queue)
    assert contest.lanes[0].tally.tokens == 0


def test_stopped_at_once_nothing_was_finished(contest: Contest) -> None:
    contest.live.stop()
    messages = contest.messages()
    assert messages[-1]["sentence"] == "Stopped. A: no answer was finished. B: no answer was finished."
    assert {(row["n"], row["interval"], row["tokensPerProblem"]) for row in of_kind(messages, "score")} == {
        (0, None, None)
    }

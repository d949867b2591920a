import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from app.compare import event_stream
from app.compare.comparison import Question
from app.compare.lane_choice import LaneChoice
from app.compare.runner import Runner
from app.runs.run import Run
from tests.app import live_runs
from tests.app.live_runs import PATIENCE_SECONDS, until

AR, MARS = LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")
PAIR = [AR, MARS]
MakeRunner = Callable[..., Runner]


@dataclass(frozen=True, slots=True)
class Written:
    """What a run wrote, and what is left of it."""

    value: str
    result: Run | None


def start(runner: Runner, session: str = "me", lanes: Sequence[LaneChoice] = PAIR) -> str:
    return runner.start(session, ask(), lanes, 0.0)


def lines(runner: Runner, identity: str) -> str:
    return live_runs.event_stream(runner, identity).behind(0)


def over(runner: Runner, identity: str) -> Written:
    """A run, once it is over."""
    found = live_runs.event_stream(runner, identity)
    result = found.result(PATIENCE_SECONDS)
    assert found.closed
    return Written(found.behind(0), result)


def written(runner: Runner, lanes: Sequence[LaneChoice] = PAIR, question: Question | None = None) -> Written:
    return over(runner, runner.start("me", question or ask(), lanes, 0.0))


def ask(threshold: float | None = 0.9) -> Question:
    return Question(prompt="How many sheep?", threshold=threshold)


def read(value: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in value.splitlines()]


def states(value: str) -> list[str]:
    """The states in order, without `loading`, which a quick load may or may not show."""
    told = [message["state"] for message in read(value) if message["kind"] == "state"]
    return [state for state in told if state != "loading"]


def test_a_run_is_kept_for_its_session(make_runner: MakeRunner) -> None:
    runner = make_runner()
    identity = start(runner)
    run = over(runner, identity)
    assert [message["id"] for message in read(run.value) if message["kind"] == "open"] == [identity] * 2
    assert states(run.value) == ["running", "done"]
    assert run.result is not None
    assert run.result.id == identity
    assert [lane.key for lane in run.result.lanes] == ["a", "b"]
    assert not runner.sessions.live("me")
    assert runner.queue.counts()["active"] == 0
    assert runner.result("me", identity) is run.result
    assert runner.result("somebody else", identity) is None
    assert runner.result("me", "no run") is None


def test_a_new_run_stops_the_one_before(make_runner: MakeRunner) -> None:
    runner = make_runner()
    with runner.queue.lock("cpu"):
        first = start(runner)
        until(lambda: len(runner.queue._locks["cpu"]) == 2)
        second = start(runner)
    assert states(over(runner, first).value)[-1] == "stopped"
    assert states(over(runner, second).value)[-1] == "done"


def test_a_run_that_no_page_follows_is_stopped(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner(places=1)
    with runner.queue.lock("cpu"):
        first, second = start(runner, "first"), start(runner, "second")
        until(lambda: len(runner.queue._locks["cpu"]) == 2)
        until(lambda: "queued" in states(lines(runner, second)))
        monkeypatch.setattr(event_stream, "FOLLOWED_SECONDS", 0.0)
    assert states(over(runner, first).value)[-1] == "stopped"
    assert states(over(runner, second).value)[-1] == "stopped"  # one that waits in line, too
    assert runner.queue.counts() == {"active": 0, "waiting": 0, "places": 1}


def test_a_run_can_be_stopped_while_it_waits(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    with runner.queue.lock("cpu"):
        first, second = start(runner, "first"), start(runner, "second")
        until(lambda: "queued" in states(lines(runner, second)))
        runner.sessions.live("second").stop()
        run = over(runner, second)
    assert states(run.value) == ["queued", "stopped"]
    assert run.result is None
    over(runner, first)


def test_a_run_that_cannot_be_kept_ends(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runner = make_runner()
    monkeypatch.setattr("app.compare.runner.finished", partial(_fail, KeyError("x")))
    run = written(runner)
    assert (states(run.value)[-1], run.result) == ("done", None)
    assert "a run could not be kept" in caplog.text
    assert not runner.sessions.live("me")


def test_two_broken_checkpoints_fail_with_the_sentence(make_runner: MakeRunner) -> None:
    last = written(make_runner(), [replace(AR, checkpoint="broken"), LaneChoice(checkpoint="broken")])
    assert "config.json of broken is missing" in read(last.value)[-1]["sentence"]
    assert states(last.value) == ["failed"]
    assert last.result is None


def test_a_short_context_stops_one_lane_only(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner()
    monkeypatch.setattr(runner.models.get("mars").engine, "context_length", 64)
    last = written(runner, question=Question(prompt="sheep " * 99, threshold=0.9, max_new_tokens=16))
    lanes = [message for message in read(last.value) if message["kind"] == "open"][-1]["lanes"]
    assert "tokens long for mars" in lanes[1]["problem"]
    assert states(last.value)[-1] == "done"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "The device has no memory left for this run. Try again"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "The device has no memory left for this run."),
        (KeyError("x"), "The run failed (KeyError); the terminal says more."),
    ],
)
def test_after_a_failure_the_next_run_works(
    make_runner: MakeRunner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    sentence: str,
) -> None:
    runner = make_runner()
    with monkeypatch.context() as patch:
        patch.setattr(runner.models.get("mars").engine, "open", partial(_fail, error))
        last = written(runner)
    assert states(last.value)[-1] == "failed"
    assert read(last.value)[-1]["sentence"].startswith(sentence)
    assert type(error).__name__ in caplog.text
    assert states(written(runner).value)[-1] == "done"


def test_the_idle_stage_introduces_the_lanes(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, gate = make_runner(), threading.Event()
    load = runner.models._load
    monkeypatch.setattr(runner.models, "_load", lambda source: gate.wait(30) and load(source))
    opening, state = read(runner.introduce(PAIR))
    assert opening["lanes"][1]["note"] == "MARS, threshold"
    assert (state["state"], runner.models.state()["loading"]) == ("idle", ["ar", "mars"])
    gate.set()
    assert runner.models.wait("mars")
    opening, state = read(runner.introduce(PAIR))
    assert [lane["checkpoint"] for lane in opening["lanes"]] == ["ar", "mars"]
    assert opening["lanes"][1]["note"] == "MARS, threshold, block size 8 · CPU"
    broken = runner.introduce([AR, LaneChoice(checkpoint="broken")])
    assert states(broken) == ["failed"]
    assert "config.json of broken is missing" in read(broken)[-1]["sentence"]


def _fail(error: Exception, *arguments: Any, **options: Any) -> Any:
    raise error

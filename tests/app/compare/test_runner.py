import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from app.compare.comparison import Question
from app.compare.lane_choice import LaneChoice
from app.compare.runner import Picture, Runner

AR, MARS = LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")
EXACT = LaneChoice(checkpoint="mars", decoder="self_speculative")
PAIR = [AR, MARS]
MakeRunner = Callable[..., Runner]


def ask(threshold: float | None = 0.9) -> Question:
    return Question(prompt="How many sheep?", threshold=threshold)


def read(value: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in value.splitlines()]


def states(value: str) -> list[str]:
    """The states in order, without `loading`, which a quick load may or may not show."""
    told = [message["state"] for message in read(value) if message["kind"] == "state"]
    return [state for state in told if state != "loading"]


def test_the_value_only_grows_and_the_last_picture_keeps_the_run(make_runner: MakeRunner) -> None:
    runner = make_runner()
    pictures = list(runner.run("me", ask(), PAIR, 0.0))
    for earlier, later in pairwise(pictures):
        assert later.value.startswith(earlier.value)
    assert [picture.running for picture in pictures][-2:] == [True, False]
    assert states(pictures[-1].value) == ["running", "done"]
    result = pictures[-1].result
    assert result is not None
    assert [lane.key for lane in result.lanes] == ["a", "b"]
    assert not runner.sessions.running("me")


def test_while_the_page_fetches_the_lines_nothing_else_sends_them(make_runner: MakeRunner) -> None:
    runner = make_runner()
    pictures = runner.run("me", ask(), PAIR, 0.0)
    first = next(pictures)
    identity = read(first.value)[0]["id"]
    event_stream = runner.event_streams.find(identity)
    assert event_stream is not None
    event_stream.fetch(0)

    def follow() -> None:  # the page says again and again how much it has
        while runner.event_streams.find(identity) is not None:
            event_stream.fetch(event_stream.text.count("\n"))
            time.sleep(0.01)

    reader = threading.Thread(target=follow)
    reader.start()
    [last] = pictures
    assert (last.value, last.running, last.result is not None) == (None, False, True)
    assert states(event_stream.text) == ["running", "done"]
    reader.join(60)
    assert len(runner.event_streams) == 0


def test_a_run_that_nobody_fetches_has_all_of_its_value(make_runner: MakeRunner) -> None:
    last = list(make_runner().run("me", ask(), PAIR, 0.0))[-1]
    assert states(last.value) == ["running", "done"]
    assert [message["live"] for message in read(last.value) if message["kind"] == "open"] == [True, True]


def test_every_run_has_its_own_identity(make_runner: MakeRunner) -> None:
    runner = make_runner()
    first, second = (list(runner.run("me", ask(), PAIR, 0.0))[-1].value.splitlines()[0] for _ in range(2))
    assert first != second


def test_a_run_waits_in_line_and_says_so(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    first = runner.run("first", ask(), PAIR, 0.0)
    second = runner.run("second", ask(), PAIR, 0.0)
    next(first)
    waiting = _until(second, "queued")
    assert read(waiting)[-1]["sentence"] == "Waiting for the device: 1 run is ahead of yours."
    assert states(list(first)[-1].value) == ["running", "done"]
    assert states(list(second)[-1].value) == ["queued", "running", "done"]


def test_a_run_that_finds_the_line_full_is_refused_and_what_runs_goes_on(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1, line=0)
    first = runner.run("first", ask(), PAIR, 0.0)
    next(first)
    [refused] = runner.run("second", ask(), PAIR, 0.0)
    assert read(refused.value)[0]["sentence"].startswith("The app is busy and its queue is full (0 waiting).")
    assert not refused.running
    assert not runner.sessions.running("second")
    assert states(list(first)[-1].value) == ["running", "done"]


def test_a_name_that_is_not_offered_is_refused(make_runner: MakeRunner) -> None:
    runner = make_runner()
    hostile = [AR, LaneChoice(checkpoint="../../etc")]
    for value in (list(runner.run("me", ask(), hostile, 0.0))[-1].value, list(runner.introduce(hostile))[-1]):
        assert states(value) == ["failed"]
        assert "There is no checkpoint" in read(value)[-1]["sentence"]


def test_checkpoints_stay_loaded_while_a_run_uses_them(make_runner: MakeRunner) -> None:
    runner = make_runner()
    pictures = runner.run("me", ask(), PAIR, 1.0)  # slow enough that the first picture is not the last
    while "running" not in states(next(pictures).value):
        pass
    assert runner.models._users == {"ar": 1, "mars": 1}
    runner.sessions.set_pace("me", 0.0)
    list(pictures)
    assert not any(runner.models._users.values())


def test_a_run_can_be_stopped_while_it_waits(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    first, second = runner.run("first", ask(), PAIR, 0.0), runner.run("second", ask(), PAIR, 0.0)
    next(first)
    _until(second, "queued")
    runner.sessions.stop("second")
    last = list(second)[-1]
    assert states(last.value) == ["queued", "stopped"]
    assert last.result is None
    first.close()


def test_an_abandoned_run_frees_its_place(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    first = runner.run("first", ask(), PAIR, 0.0)
    next(first)
    first.close()
    assert states(list(runner.run("second", ask(), PAIR, 0.0))[-1].value) == ["running", "done"]


def test_a_broken_checkpoint_says_why_and_the_other_lane_writes(make_runner: MakeRunner) -> None:
    value = list(make_runner().run("me", ask(), [AR, LaneChoice(checkpoint="broken")], 0.0))[-1].value
    lanes = [message for message in read(value) if message["kind"] == "open"][-1]["lanes"]
    assert lanes[0]["problem"] is None
    assert lanes[1]["problem"] == "config.json of broken is missing: give a folder that a training run wrote."
    assert states(value)[-1] == "done"
    assert {message["lane"] for message in read(value) if message["kind"] == "pass"} == {"a"}


def test_two_broken_checkpoints_fail_with_the_sentence(make_runner: MakeRunner) -> None:
    last = list(
        make_runner().run("me", ask(), [replace(AR, checkpoint="broken"), LaneChoice(checkpoint="broken")], 0.0)
    )[-1]
    assert "config.json of broken is missing" in read(last.value)[-1]["sentence"]
    assert states(last.value) == ["failed"]
    assert last.result is None


def test_a_lane_that_cannot_write_says_why_and_the_others_do(make_runner: MakeRunner) -> None:
    value = list(make_runner().run("me", ask(), [AR, replace(MARS, checkpoint="ar"), EXACT], 0.0))[-1].value
    lanes = [message for message in read(value) if message["kind"] == "open"][-1]["lanes"]
    assert "ar was not trained to fill masks" in lanes[1]["problem"]
    assert [lane["family"] for lane in lanes] == ["ar", "masks", "exact"]
    assert {message["lane"] for message in read(value) if message["kind"] == "pass"} == {"a", "c"}
    assert "AR and MARS exact write side by side." in value


def test_a_context_too_short_for_one_lane_leaves_the_others(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = make_runner()
    monkeypatch.setattr(runner.models.get("mars").engine, "context_length", 64)
    last = list(runner.run("me", Question(prompt="sheep " * 99, threshold=0.9, max_new_tokens=16), PAIR, 0.0))[-1]
    lanes = [message for message in read(last.value) if message["kind"] == "open"][-1]["lanes"]
    assert "tokens long for mars" in lanes[1]["problem"]
    assert states(last.value)[-1] == "done"


def test_a_second_checkpoint_drafts(make_runner: MakeRunner) -> None:
    drafted = LaneChoice(checkpoint="mars", decoder="speculative", draft="markup")
    last = list(make_runner().run("me", ask(), [AR, drafted], 0.0))[-1]
    assert last.result is not None
    assert last.result.lanes[1].text.endswith("#### 48")
    assert {record.phase for record in last.result.lanes[1].records} == {"prefill", "draft", "verify"}


def test_there_is_room_for_three_lanes(make_runner: MakeRunner) -> None:
    last = list(make_runner().run("me", ask(), [AR] * 4, 0.0))[-1]
    assert read(last.value)[-1]["sentence"] == "There must be 1 to 3 lanes, got 4."


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "The device has no memory left for this run. Try again"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "The device has no memory left for this run."),
        (KeyError("x"), "The run failed (KeyError); the terminal says more."),
    ],
)
def test_a_failure_in_a_pass_is_told_and_the_next_run_works(
    make_runner: MakeRunner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    sentence: str,
) -> None:
    runner = make_runner()
    with monkeypatch.context() as patch:
        patch.setattr(runner.models.get("mars").engine, "open", partial(_fail, error))
        last = list(runner.run("me", ask(), PAIR, 0.0))[-1]
    assert states(last.value)[-1] == "failed"
    assert read(last.value)[-1]["sentence"].startswith(sentence)
    assert type(error).__name__ in caplog.text
    assert states(list(runner.run("me", ask(), PAIR, 0.0))[-1].value)[-1] == "done"


def test_a_slow_load_is_told(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, gate = make_runner(), threading.Event()
    load = runner.models._load
    monkeypatch.setattr(runner.models, "_load", lambda source: gate.wait(30) and load(source))
    pictures = runner.run("me", ask(), PAIR, 0.0)
    seen = next(pictures).value
    while "loading" not in seen:
        seen = next(pictures).value
    assert read(seen)[-1]["sentence"] == "Loading ar …"
    gate.set()
    assert states(list(pictures)[-1].value) == ["running", "done"]


def test_the_idle_stage_introduces_the_lanes(make_runner: MakeRunner) -> None:
    value = list(make_runner().introduce(PAIR))[-1]
    opening, state = read(value)
    assert [lane["checkpoint"] for lane in opening["lanes"]] == ["ar", "mars"]
    assert opening["lanes"][1]["note"] == "MARS, threshold, block size 8 · CPU"
    assert state["state"] == "idle"


def test_the_idle_stage_says_which_checkpoint_is_broken(make_runner: MakeRunner) -> None:
    value = list(make_runner().introduce([AR, LaneChoice(checkpoint="broken")]))[-1]
    assert states(value) == ["failed"]
    assert "config.json of broken is missing" in read(value)[-1]["sentence"]


def _until(pictures: Iterator[Picture], state: str) -> str:
    for picture in pictures:
        if state in states(picture.value):
            return picture.value
    raise AssertionError(f"the run never was {state}")


def _fail(error: Exception, *arguments: Any, **options: Any) -> Any:
    raise error

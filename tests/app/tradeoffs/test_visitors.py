"""Visitors of a scripted model: both lanes answer the same ones, and everything comes to an end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import gradio as gr
import pytest

from app.compare.runner import Runner
from app.models.pairs import real, tiny
from app.scheduling import BusyError
from app.tabs.question import prompts
from app.tabs.tradeoffs import handle
from app.tradeoffs import visitors
from app.tradeoffs.visitors import Arrivals, Message, Visitors
from mars.schema import checked

PATIENCE_SECONDS = 60.0


def clock(step: float = 0.05) -> Callable[[], float]:
    """A watch that moves on by so much each time that it is read."""
    ticks = count()
    return lambda: next(ticks) * step


@pytest.fixture(autouse=True)
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page follows here, and runs go on nevertheless."""
    monkeypatch.setattr("app.compare.event_stream.FOLLOWED_SECONDS", 10 * PATIENCE_SECONDS)


@pytest.fixture
def runner(make_runner: Callable[..., Runner]) -> Runner:
    return make_runner()


def read(text: str) -> list[dict[str, Any]]:
    """The messages, which are what the schema says."""
    found = [json.loads(line) for line in text.splitlines()]
    for message in found:
        checked(Message, message)
    return found


def written(runner: Runner, identity: str) -> list[dict[str, Any]]:
    """What a run has told so far."""
    found = runner.event_streams.find(identity)
    assert found is not None
    return read(found.behind(0))


def over(runner: Runner, identity: str) -> list[dict[str, Any]]:
    """What a run told, once it is over and has freed its place."""
    found = runner.event_streams.find(identity)
    assert found is not None
    assert found.result(PATIENCE_SECONDS) is None
    assert found.closed is not None
    assert len(runner.sessions._runs) == runner.queue.counts()["active"] == 0
    return read(found.behind(0))


def run(runner: Runner, found: Visitors, rate: float = 5.0) -> list[dict[str, Any]]:
    return over(runner, found.start("one", rate))


def until_running(runner: Runner, identity: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(message["kind"] == "load" for message in written(runner, identity)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_both_lanes_answer_the_same_visitors_until_the_minute_is_over(runner: Runner) -> None:
    *before, picture, last = run(runner, Visitors(runner, "mars", ["Hi", "Why?"], clock()))
    assert [one["state"] for one in before if one["kind"] == "state"][-1] == "running"
    assert last == {"kind": "state", "state": "done", "sentence": "Finished after 60 seconds."}
    ar, mars = picture["lanes"]["ar"], picture["lanes"]["mars"]
    assert ar["answered"] > 0
    assert mars["answered"] > 0


@pytest.mark.parametrize("end", ["stop", "leave"])
def test_it_stops_when_it_is_told_to_and_when_the_page_is_closed(runner: Runner, end: str) -> None:
    found = Visitors(runner, "mars", ["Hi"])
    ends = {"stop": lambda: found.stop("one"), "leave": lambda: runner.sessions.leave("one")}
    identity = found.start("one", 5.0)
    until_running(runner, identity)
    ends[end]()
    *_, picture, last = over(runner, identity)
    assert (picture["kind"], last["state"], last["sentence"]) == ("load", "stopped", "Stopped.")


def test_a_run_that_no_page_follows_is_stopped(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.compare.event_stream.FOLLOWED_SECONDS", 0.2)
    assert run(runner, Visitors(runner, "mars", ["Hi"]))[-1]["state"] == "stopped"


def test_a_run_that_is_stopped_in_the_queue_never_begins(make_runner: Callable[..., Runner]) -> None:
    runner = make_runner(places=1)
    ticket = runner.queue.join()
    found = Visitors(runner, "mars", ["Hi"])
    identity = found.start("one", 5.0)
    found.stop("one")
    ticket.leave()
    assert over(runner, identity)[-1]["sentence"] == "Stopped before the first pass."


def test_another_rate_acts_from_now_on() -> None:
    slow, quick = Arrivals(0.1, 3), Arrivals(0.1, 3)
    assert slow[0] == quick[0]
    quick.rate = 5.0
    assert quick[20][0] < slow[20][0]
    assert all(slow[number][0] < slow[number + 1][0] for number in range(20))


def test_who_finds_the_queue_full_is_turned_away(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "QUEUE", 0)
    monkeypatch.setattr(visitors, "MOST", 1e9)
    *_, picture, _ = run(runner, Visitors(runner, "mars", ["Hi"], clock(0.1)), rate=1e4)
    assert picture["lanes"]["ar"]["refused"] > 0
    assert picture["lanes"]["ar"]["waiting"] == 0


def test_a_full_app_and_a_model_without_masks_are_said(make_runner: Callable[..., Runner]) -> None:
    full = make_runner(places=1, line=0)
    ticket = full.queue.join()
    with pytest.raises(BusyError):
        Visitors(full, "mars", ["Hi"]).start("one", 1.0)
    [told] = read_value(handle(Visitors(full, "mars", ["Hi"]), {"ask": "start"}, "one"))
    assert (told["kind"], "busy" in told["sentence"]) == ("refusal", True)
    ticket.leave()
    last = run(full, Visitors(full, "ar", ["Hi"]))[-1]
    assert last["state"] == "failed"
    assert "not trained to fill masks" in last["sentence"]


def read_value(value: str) -> list[dict[str, Any]]:
    """What the value of the component tells the page."""
    return [json.loads(line) for line in value.splitlines()]


def test_the_page_is_told_which_run_to_follow(runner: Runner) -> None:
    found = Visitors(runner, "mars", ["Hi"], clock())
    [told] = read_value(handle(found, {"ask": "start", "rate": 2.0}, "one"))
    assert told["kind"] == "follow"
    assert over(runner, told["id"])[-1]["state"] == "done"


@pytest.mark.parametrize("rate", [0, -1, "many", 1e9, True, None])
def test_a_rate_that_cannot_be_is_refused(runner: Runner, rate: Any) -> None:
    [told] = read_value(handle(Visitors(runner, "mars", ["Hi"]), {"ask": "start", "rate": rate}, "one"))
    assert told["kind"] == "refusal"
    assert told["sentence"].startswith("The number of visitors must be")
    assert len(runner.sessions._runs) == 0


@pytest.mark.parametrize("asked", [None, 3, {"ask": "fly"}, {"ask": "stop"}, {"ask": "turn", "rate": 2.0}])
def test_without_a_run_nothing_happens(runner: Runner, asked: Any) -> None:
    assert handle(Visitors(runner, "mars", ["Hi"]), asked, "one") == gr.skip()


def test_they_ask_what_the_buttons_ask() -> None:
    assert "Why is the sky blue?" in prompts(real("a", "b"))
    assert len(prompts(tiny("a", "b"))) == 6

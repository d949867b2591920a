"""Visitors of a scripted model: both lanes answer the same ones, and everything comes to an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from app.compare.runner import Runner
from app.models.pairs import real, tiny
from app.tabs.question import prompts
from app.tabs.tradeoffs import handle
from app.tradeoffs import visitors
from app.tradeoffs.visitors import Arrivals, Visitors, VisitorsState


def clock(step: float = 0.01) -> Callable[[], float]:
    """A watch that moves on by so much each time that it is read."""
    ticks = count()
    return lambda: next(ticks) * step


@pytest.fixture
def runner(make_runner: Callable[..., Runner]) -> Runner:
    return make_runner()


def run(found: Visitors, session: str = "one", rate: float = 5.0) -> Iterator[VisitorsState]:
    return found.run(session, "7", rate)


def test_both_lanes_answer_the_same_visitors_until_the_minute_is_over(runner: Runner) -> None:
    *pictures, last = run(Visitors(runner, "mars", ["Hi", "Why?"], clock()))
    assert pictures[0]["state"] == "waiting"
    assert {picture["state"] for picture in pictures} == {"waiting", "running"}
    assert (last["state"], last["run"]) == ("done", "7")
    assert last["sentence"].startswith("Finished")
    ar, mars = last["lanes"]["ar"], last["lanes"]["mars"]
    assert ar["answered"] > 0
    assert mars["answered"] > 0
    assert len(runner.sessions._runs) == runner.queue.counts()["active"] == 0


def test_it_stops_when_it_is_told_to_and_when_the_page_is_closed(runner: Runner) -> None:
    found = Visitors(runner, "mars", ["Hi"], clock(0.001))
    for end in (lambda: found.stop("one"), lambda: runner.sessions.leave("one")):
        pictures = run(found)
        while next(pictures)["state"] != "running":
            pass
        end()
        *_, last = pictures
        assert (last["state"], last["sentence"]) == ("done", "Stopped.")
        assert runner.queue.counts()["active"] == 0
    pictures = run(found)
    while next(pictures)["state"] != "running":
        pass
    pictures.close()  # type: ignore[attr-defined]
    assert runner.queue.counts()["active"] == 0


def test_another_rate_acts_from_now_on() -> None:
    slow, quick = Arrivals(0.1, 3), Arrivals(0.1, 3)
    assert slow[0] == quick[0]
    quick.rate = 5.0
    assert quick[20][0] < slow[20][0]
    assert all(slow[number][0] < slow[number + 1][0] for number in range(20))


def test_who_finds_the_queue_full_is_turned_away(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "QUEUE", 0)
    monkeypatch.setattr(visitors, "MOST", 1e9)
    *_, last = run(Visitors(runner, "mars", ["Hi"], clock(0.1)), rate=1e6)
    assert last["lanes"]["ar"]["refused"] > 0
    assert last["lanes"]["ar"]["waiting"] == 0


def test_a_full_app_and_a_model_without_masks_are_said(make_runner: Callable[..., Runner]) -> None:
    full = make_runner(places=1, line=0)
    ticket = full.queue.join()
    [only] = run(Visitors(full, "mars", ["Hi"]))
    assert (only["state"], "busy" in only["sentence"]) == ("failed", True)
    ticket.leave()
    *_, last = run(Visitors(full, "ar", ["Hi"]))
    assert last["state"] == "failed"
    assert "not trained to fill masks" in last["sentence"]
    assert full.queue.counts()["active"] == 0


@pytest.mark.parametrize("rate", [0, -1, "many", 1e9, True, None])
def test_a_rate_that_cannot_be_is_refused(runner: Runner, rate: Any) -> None:
    [value] = handle(Visitors(runner, "mars", ["Hi"]), {"ask": "start", "rate": rate}, "one")
    told = json.loads(value)
    assert told["state"] == "failed"
    assert told["sentence"].startswith("The number of visitors must be")


@pytest.mark.parametrize("asked", [None, 3, {"ask": "fly"}, {"ask": "stop"}, {"ask": "turn", "rate": 2.0}])
def test_without_a_run_nothing_happens(runner: Runner, asked: Any) -> None:
    assert len(list(handle(Visitors(runner, "mars", ["Hi"]), asked, "one"))) == 1


def test_they_ask_what_the_buttons_ask() -> None:
    assert "Why is the sky blue?" in prompts(real("a", "b"))
    assert len(prompts(tiny("a", "b"))) == 6

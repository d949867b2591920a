"""A sweep of τ without a browser: what each row counts, and what a page is told."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.compare import sweep
from app.compare.comparison import Question
from app.compare.lane_choice import LaneChoice
from app.compare.runner import Runner
from app.scheduling import Limits
from mars.schema import checked
from tests.app.live_runs import PATIENCE_SECONDS, event_stream

AR, MARS = LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")
MakeRunner = Callable[..., Runner]


def begin(runner: Runner, choices: Sequence[LaneChoice] = (AR, MARS), prompt: str = "How many sheep?") -> str:
    return sweep.start(runner, "me", Question(prompt=prompt, threshold=0.95, limits=Limits()), choices)


def told(runner: Runner, identity: str) -> list[dict[str, Any]]:
    """All messages of a sweep that is over, each checked against its type."""
    stream = event_stream(runner, identity)
    assert stream.result(PATIENCE_SECONDS) is None  # no run is kept
    messages = [json.loads(line) for line in stream.behind(0).splitlines()]
    for message in messages:
        checked(sweep.Message, message)
    return messages


def rows(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["kind"] == "swept"]


def test_a_row_for_ar_and_each_threshold(make_runner: MakeRunner) -> None:
    runner = make_runner()
    messages = told(runner, begin(runner))
    baseline, *others = rows(messages)
    assert [row["threshold"] for row in rows(messages)] == [None, 0.99, 0.95, 0.9, 0.7, 0.5]
    assert (baseline["tokensPerForward"], baseline["speed"]) == (1.0, None)
    passes = [row["tokens"] / row["tokensPerForward"] for row in others]
    assert passes == sorted(passes, reverse=True)  # a lower τ accepts more a pass
    assert len(set(passes)) > 1
    for row in others:
        rates = [each["tokens"] / each["seconds"] for each in (row, baseline)]
        assert row["speed"] == pytest.approx(rates[0] / rates[1], rel=1e-3)
        assert row["text"] != baseline["text"]  # two numbers
    assert (messages[-1]["state"], messages[-1]["sentence"]) == ("done", "Done.")
    assert not runner.sessions.live("me")


def test_without_an_ar_lane_it_takes_one(make_runner: MakeRunner) -> None:
    runner = make_runner()
    baseline, *others = rows(told(runner, begin(runner, [MARS])))
    assert baseline["tokensPerForward"] == 1.0
    assert {row["text"] for row in others} == {baseline["text"]}  # the same weights, which recite


def test_no_lane_on_the_slider_is_refused(make_runner: MakeRunner) -> None:
    own = LaneChoice(checkpoint="mars", follows=False, threshold=0.8)
    with pytest.raises(ValueError, match="No lane follows the slider"):
        begin(make_runner(), [AR, own])


def test_a_lane_that_cannot_write_is_named(make_runner: MakeRunner) -> None:
    runner = make_runner()
    messages = told(runner, begin(runner, [AR, LaneChoice(checkpoint="ar")]))
    assert messages[-1]["state"] == "failed"
    assert "was not trained to fill masks" in messages[-1]["sentence"]

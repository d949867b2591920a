from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.runner import Runner
from app.tradeoffs.answers import UNKNOWN, Desk
from app.tradeoffs.library import Library

RunOf = Callable[..., str]
VIEW = {"figure": "frontier", "against": "tokens_per_forward"}


@pytest.fixture(scope="module")
def desk(library: Library, make_runner: Callable[..., Runner]) -> Desk:
    return Desk(library, make_runner())


def ask(desk: Desk, what: Any, about: Any = None, ticket: Any = 7) -> dict[str, Any]:
    *_, last = desk.answer({"ask": what, "about": about, "ticket": ticket}, "session")
    return json.loads(last)


def test_it_begins_with_the_figures_and_both_grounds(desk: Desk) -> None:
    told = ask(desk, "begin")
    assert told["ticket"] == 7
    assert len(told["figures"]) == 9
    inks = [told["templates"][ground]["layout"]["font"]["color"] for ground in ("light", "dark")]
    assert len(set(inks)) == 2
    assert told["problems"] == []


def test_a_view_is_json_without_a_template_of_its_own(desk: Desk) -> None:
    shown = ask(desk, "view", VIEW)
    assert "template" not in shown["figure"]["layout"]
    assert shown["figure"]["layout"]["uirevision"] == "frontier tokens_per_forward"


def test_reloading_says_whether_anything_changed(desk: Desk) -> None:
    assert ask(desk, "reload")["changed"] is False


def test_csv_and_card_and_samples(desk: Desk, run_of: RunOf) -> None:
    run = run_of("mars", threshold=0.7)
    assert ask(desk, "csv", VIEW)["text"].startswith("id,")
    assert ask(desk, "card", {"id": run})["model"] == "mars"
    assert ask(desk, "samples", {"id": run, "right": True})["samples"]


@pytest.mark.parametrize(
    ("what", "about", "sentence"),
    [
        ("burn", None, UNKNOWN),
        (None, None, UNKNOWN),
        (["view"], None, UNKNOWN),
        ("view", None, "the view must be an object, got None."),
        ("view", {"figure": "<b>"}, "the view lacks ['against']."),
        (
            "view",
            {**VIEW, "points": 1e9},
            "The points that may be lost must be a number from 0.1 to 50, got 1000000000.0.",
        ),
        ("card", {"id": "gone"}, "There is no such run any more: reload the runs."),
        ("card", {"id": 5}, "id must be text, got 5."),
        ("samples", {"id": "gone"}, "There is no such run any more: reload the runs."),
        (
            "again",
            {"id": "x", "task": "logic", "number": -1},
            "number must be a whole number from 0 to 1000000, got -1.",
        ),
    ],
)
def test_whatever_is_asked_gets_a_sentence(desk: Desk, what: Any, about: Any, sentence: str) -> None:
    assert ask(desk, what, about) == {"ticket": 7, "problem": sentence}


@pytest.mark.parametrize("asked", [None, 1, "text", [], {"ask": "view", "ticket": "x" * 9}, {"ticket": True}])
def test_no_question_at_all(desk: Desk, asked: Any) -> None:
    (line,) = desk.answer(asked, "session")
    assert json.loads(line)["ticket"] is None


def test_an_accident_is_a_sentence_too(make_runner: Callable[..., Runner]) -> None:
    class Broken(Library):
        def store(self) -> Any:
            raise RuntimeError("/srv/secret")

    told = ask(Desk(Broken(), make_runner()), "samples", {"id": "x"})
    assert told["problem"].startswith("That failed (RuntimeError)")
    assert "secret" not in json.dumps(told)


def test_nothing_in_an_answer_looks_like_a_tag(desk: Desk, run_of: RunOf) -> None:
    *_, line = desk.answer({"ask": "view", "about": VIEW, "ticket": 1}, "session")
    assert "<" not in line

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.compare.runner import Runner
from app.models.sentences import UNKNOWN
from app.tabs.tradeoffs import answering
from app.tradeoffs.run_cache import RunCache

Answer = Callable[[object], str]
VIEW: dict[str, Any] = {"figure": "frontier", "against": "tokens_per_forward"}


@pytest.fixture(scope="module")
def answer(run_cache: RunCache, make_runner: Callable[..., Runner]) -> Answer:
    return answering(run_cache, make_runner())


def ask(answer: Answer, what: Any, about: Any = None, ticket: Any = 7) -> dict[str, Any]:
    return json.loads(answer({"ask": what, "about": about, "ticket": ticket}))


def test_a_view_is_json_without_own_template(answer: Answer) -> None:
    shown = ask(answer, "view", VIEW)
    assert (shown["ticket"], shown["problems"]) == (7, [])
    assert "template" not in shown["figure"]["layout"]
    assert shown["figure"]["layout"]["uirevision"] == "frontier tokens_per_forward"
    assert "<" not in answer({"ask": "view", "about": VIEW, "ticket": 1}), "nothing looks like a tag"


@pytest.mark.parametrize(
    ("what", "about", "sentence"),
    [
        ("burn", None, UNKNOWN),
        (None, None, UNKNOWN),
        (["view"], None, UNKNOWN),
        ("view", None, "the view must be an object, got None."),
        ("view", {"figure": 1}, "the view: figure must be text, got 1."),
        ("view", {**VIEW, "points": 1e9}, "the view: points must be a number from 0.1 to 50, got 1000000000.0."),
        ("card", {"id": "gone"}, "There is no such run any more: choose one from the figure."),
        ("card", {"id": 5}, "the run: id must be text, got 5."),
        ("samples", {"id": "gone"}, "There is no such run any more: choose one from the figure."),
        ("samples", {"id": "x", "first": -1}, "the run: first must be a whole number from 0 to 1000000, got -1."),
    ],
)
def test_whatever_is_asked_gets_a_sentence(answer: Answer, what: Any, about: Any, sentence: str) -> None:
    assert ask(answer, what, about) == {"ticket": 7, "problem": sentence}


@pytest.mark.parametrize("asked", [None, 1, "text", [], {"ask": "view", "ticket": "x" * 9}, {"ticket": True}])
def test_no_question_at_all(answer: Answer, asked: Any) -> None:
    assert json.loads(answer(asked))["ticket"] is None


def test_an_accident_is_a_sentence_too(make_runner: Callable[..., Runner]) -> None:
    class Broken(RunCache):
        def once(self, *about: Any) -> Any:
            raise RuntimeError("/srv/secret")

    told = ask(answering(Broken(), make_runner()), "samples", {"id": "x"})
    assert told["problem"].startswith("That failed (RuntimeError)")
    assert "secret" not in json.dumps(told)

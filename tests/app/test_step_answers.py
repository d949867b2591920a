"""What the Step through tab may ask Python: always an answer, never an exception."""

import json
from typing import Any

import pytest

from app.runs.run import read
from app.runs.stored import shipped
from app.tabs.step import answer

NAME = "1-side-by-side"


def test_a_shipped_run_is_given_by_its_name() -> None:
    found = answer({"ask": "shipped", "text": NAME, "ticket": 7})
    assert found["ticket"] == 7
    opened = json.loads(found["run"])
    assert read(json.dumps(opened["run"])) == shipped()[NAME]
    assert set(opened["what_if"]) == {lane.key for lane in shipped()[NAME].lanes}


def test_a_file_becomes_a_replay() -> None:
    opened = answer({"ask": "shipped", "text": NAME, "ticket": 1})["run"]
    text = json.dumps(json.loads(opened)["run"])
    assert answer({"ask": "read", "text": text, "ticket": 2})["run"] == opened
    assert answer({"ask": "replay", "text": text, "ticket": 3})["page"].startswith("<!doctype html>")


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        "read",
        {},
        {"ask": "read"},
        {"ask": ["read"], "text": "x", "ticket": 1},
        {"ask": "read", "text": {"kind": "mars-lens-run"}, "ticket": 1},
        {"ask": "read", "text": "\ud800", "ticket": {}},
        {"ask": "replay", "text": "{}", "ticket": 1},
        {"ask": "shipped", "text": "../../checkpoints/ar-sft/config", "ticket": 1},
        {"ask": "__class__", "text": "x", "ticket": 1},
    ],
)
def test_anything_else_gets_a_sentence(asked: Any) -> None:
    found = answer(asked)
    assert found["problem"].endswith(".")
    assert set(found) == {"ticket", "problem"}

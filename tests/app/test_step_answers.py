"""What the Step through tab may ask Python: always an answer, never an exception."""

from typing import Any

import pytest

from app.runs.run import read, shipped
from app.tabs.step import answer

NAME = "1-side-by-side"


def test_a_shipped_run_is_given_by_its_name() -> None:
    found = answer({"ask": "shipped", "text": NAME, "ticket": 7})
    assert found["ticket"] == 7
    assert read(found["run"]) == shipped()[NAME]
    assert "<" not in found["run"]


def test_a_file_is_opened_as_what_it_was() -> None:
    opened = answer({"ask": "shipped", "text": NAME, "ticket": 1})["run"]
    assert answer({"ask": "read", "text": opened, "ticket": 2})["run"] == opened


@pytest.mark.parametrize("text", ["{}", None, ["x"], "\ud800"])
def test_what_is_no_run_becomes_no_page(text: Any) -> None:
    found = answer({"ask": "page", "text": text, "ticket": 1}, lambda *_: "a page")
    assert set(found) == {"ticket", "problem"}


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
        {"ask": "shipped", "text": "../../checkpoints/ar-sft/config", "ticket": 1},
        {"ask": "__class__", "text": "x", "ticket": 1},
    ],
)
def test_anything_else_gets_a_sentence(asked: Any) -> None:
    found = answer(asked)
    assert found["problem"].endswith(".")
    assert set(found) == {"ticket", "problem"}

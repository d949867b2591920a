"""What the Step through tab may ask Python: always an answer, never an exception."""

import sys
from typing import Any

import pytest

from app.__main__ import main
from app.runs.run import read, shipped
from app.tabs.step import answer
from mars.schema import as_json

NAME = "1-side-by-side"


def test_a_shipped_run_is_given_by_its_name() -> None:
    found = answer({"ask": "shipped", "text": NAME, "ticket": 7})
    assert found["ticket"] == 7
    assert read(found["run"]) == shipped()[NAME]
    assert "<" not in found["run"]


def test_a_file_is_opened_as_what_it_was() -> None:
    opened = answer({"ask": "shipped", "text": NAME, "ticket": 1})["run"]
    assert answer({"ask": "read", "text": opened, "ticket": 2})["run"] == opened


def test_no_page_without_the_package_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mars_site", None)
    assert answer({"ask": "page", "text": as_json(shipped()[NAME]), "ticket": 1})["problem"].endswith("is not here.")
    assert main(["export", "--help"]) == 2


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
        {"ask": "page", "text": "{}", "ticket": 1},
        {"ask": "page", "text": ["x"], "ticket": 1},
        {"ask": "page", "text": "\ud800", "ticket": 1},
        {"ask": "shipped", "text": "../../checkpoints/ar-sft/config", "ticket": 1},
        {"ask": "__class__", "text": "x", "ticket": 1},
    ],
)
def test_anything_else_gets_a_sentence(asked: Any) -> None:
    found = answer(asked)
    assert found["problem"].endswith(".")
    assert set(found) == {"ticket", "problem"}

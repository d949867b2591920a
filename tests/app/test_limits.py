import math
from typing import Any

import pytest

from app import limits
from app.limits import USUAL_LIMITS, Limits


@pytest.mark.parametrize(("value", "kind"), [(None, "nothing"), (7, "a number"), (["a"], "a list"), ({}, "an object")])
def test_a_prompt_that_is_no_text_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=f"The prompt must be text, got {kind}"):
        USUAL_LIMITS.check_prompt(value)


def test_a_lone_surrogate_becomes_the_replacement_character_and_a_pair_its_character() -> None:
    assert USUAL_LIMITS.check_prompt("a\ud800b\ud83d\ude00\x00") == "a\ufffdb😀\x00"


@pytest.mark.parametrize("tokens", [15, 65, 20.5, math.nan, math.inf, "20", None, True, 10**400])
def test_a_length_out_of_range_is_refused(tokens: Any) -> None:
    with pytest.raises(ValueError, match="between 16 and 64 new tokens"):
        Limits(new_tokens=64).check_length(tokens)


def test_a_whole_float_is_a_length() -> None:
    assert Limits(new_tokens=64).check_length(20.0) == 20


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-1, "-1"),
        (10**400, "a number too large to write"),
        ("0.5", "text"),
        (True, "true or false"),
    ],
)
def test_a_number_out_of_range_is_refused(value: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^The threshold must be a number between 0.5 and 1, got {shown}.$"):
        limits.number(value, "The threshold", 0.5, 1.0)


def test_the_ends_of_the_range_are_in_it() -> None:
    assert [limits.number(value, "x", 0.5, 1) for value in (0.5, 1)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("value", "shown"), [(["a"], "must be text, got a list"), ("x" * 201, "at most 200 .* got 201")]
)
def test_a_text_that_is_none_or_too_long_is_refused(value: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        limits.text(value, "The name")

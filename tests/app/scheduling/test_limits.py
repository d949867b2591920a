import math
from typing import Any

import pytest

from app.scheduling import USUAL_LIMITS, Limits


@pytest.mark.parametrize("value", [None, 7, ["a"], {"path": "x"}])
def test_a_prompt_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^The prompt must be text, got .*\.$"):
        USUAL_LIMITS.check_prompt(value)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert USUAL_LIMITS.check_prompt("a\ud800b\ud83d\ude00\x00") == "a\ufffdb😀\x00"


@pytest.mark.parametrize("tokens", [15, 65, 20.5, math.nan, math.inf, "20", None, True, 10**400])
def test_a_length_out_of_range_is_refused(tokens: Any) -> None:
    with pytest.raises(ValueError, match="between 16 and 64 new tokens"):
        Limits(new_tokens=64).check_length(tokens)


def test_a_whole_float_is_a_length() -> None:
    assert Limits(new_tokens=64).check_length(20.0) == 20

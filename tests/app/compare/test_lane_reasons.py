from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import why_not, why_one_token

MakeCheckpoint = Callable[..., Any]
REPLY = "So 3 * 18 = 54."
MARS = LaneChoice(checkpoint="mars")
AR = LaneChoice(checkpoint="ar", decoder="autoregressive")


@pytest.fixture(scope="module")
def ar(make_checkpoint: MakeCheckpoint) -> Any:
    return make_checkpoint("ar", REPLY, masks=False)


@pytest.fixture(scope="module")
def mars(make_checkpoint: MakeCheckpoint) -> Any:
    return make_checkpoint("mars", REPLY)


def test_a_checkpoint_that_can_write_has_no_problem(ar: Any, mars: Any) -> None:
    assert why_not(AR, ar) is None
    assert why_not(LaneChoice(checkpoint="ar", decoder="jacobi"), ar) is None
    for decoder in ("autoregressive", "sliding_window", "self_speculative", "jacobi", "block_cached"):
        assert why_not(LaneChoice(checkpoint="mars", decoder=decoder), mars) is None
    assert not mars.engine.calls


def test_the_decoders_reasons_are_told(mars: Any) -> None:
    found = why_not(LaneChoice(checkpoint="mars", decoder="self_speculative", block_size=1), mars)
    assert found == "Self_speculative needs block_size >= 2, got 1: a block of 1 has no draft."


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, None),
        ({"follows": False, "threshold": None}, "Its threshold is set to one token per pass"),
        ({"block_size": 1}, "The block size is 1"),
        ({"block_size": 1, "extra_proposal": True}, None),
        ({"follows": False, "threshold": 1.0}, "At τ = 1 almost nothing is accepted"),
        ({"follows": False, "threshold": 0.0, "score": "entropy"}, "At τ = 0 almost nothing is accepted"),
        ({"follows": False, "threshold": 1.0, "score": "entropy"}, None),
        ({"decoder": "self_speculative"}, None),
        ({"decoder": "autoregressive"}, None),
    ],
)
def test_a_lane_says_why_one_token(mars: Any, changes: dict[str, Any], sentence: str | None) -> None:
    found = why_one_token(replace(MARS, **changes), mars)
    assert found == sentence if sentence is None else str(found).startswith(sentence)

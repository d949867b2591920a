from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import checkpoint_names, comparable, requested, why_not, why_one_token, with_checkpoints
from mars.checkpoint import load_checkpoint
from mars.checkpoint.checkpoint import paired

AR, MARS = LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")
DRAFTED = LaneChoice(checkpoint="mars", decoder="speculative", draft="markup")


def test_lanes_are_named_by_place_and_decoder() -> None:
    choices = [AR, MARS, replace(MARS, follows=False, threshold=0.8)]
    assert [(lane.key, lane.title) for lane in requested(choices)] == [("a", "AR"), ("b", "MARS"), ("c", "MARS τ 0.80")]


def test_lanes_called_alike_get_their_letters() -> None:
    assert [lane.title for lane in requested([MARS, AR, MARS])] == ["MARS (A)", "AR", "MARS (C)"]


def test_every_checkpoint_is_asked_for_once() -> None:
    assert checkpoint_names([MARS, AR, DRAFTED]) == ["mars", "ar", "markup"]


def test_a_card_says_what_is_unusual(make_runner: Callable[..., Any]) -> None:
    choice = LaneChoice(
        checkpoint="mars", follows=False, threshold=0.3, score="entropy", block_size=4, temperature=0.5, top_p=0.9
    )
    first, second = with_checkpoints([choice, DRAFTED], make_runner().models)
    card = first.card()
    assert card["note"] == "MARS, threshold, block size 4, τ 0.30, by entropy, temperature 0.5, top-p 0.9 · CPU"
    assert (card["family"], card["checkpoint"], card["score"]) == ("masks", "mars", "entropy")
    assert card["settings"]["block_size"] == 4
    assert "draft markup" in second.card()["note"]


def test_a_broken_checkpoint_concerns_its_lane_only(make_runner: Callable[..., Any]) -> None:
    lanes = [replace(MARS, checkpoint="broken"), AR, replace(DRAFTED, draft="broken")]
    found = with_checkpoints(lanes, make_runner().models)
    assert [bool(lane.problem) for lane in found] == [True, False, True]
    assert "config.json of broken is missing" in str(found[0].problem)


@pytest.mark.parametrize("count", [0, 4])
def test_there_is_room_for_three_lanes(count: int) -> None:
    with pytest.raises(ValueError, match=f"There must be 1 to 3 lanes, got {count}"):
        requested([MARS] * count)


def test_a_draft_leaves_the_size_of_its_target() -> None:
    ar, draft = (load_checkpoint(f"assets/checkpoints/{name}", device="cpu") for name in ("ar-sft", "draft-ar"))
    assert comparable(ar, paired(ar, draft))
    assert not comparable(paired(ar, ar), paired(draft, draft))


MakeCheckpoint = Callable[..., Any]
REPLY = "So 3 * 18 = 54."


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
    assert found == "MARS, exact needs Block size >= 2, got 1: a block of 1 has no draft."


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

from dataclasses import asdict
from typing import Any

import pytest

from app.compare.lane_choice import OWN, PRESETS, LaneChoice, preset_of, to_settings
from mars.schema import checked


def settings(choice: LaneChoice, **changes: Any) -> Any:
    return to_settings(choice, **{"threshold": 0.7, "block_size": 16, "max_new_tokens": 32, **changes})


def test_the_presets_are_ar_live_and_exact() -> None:
    made = [make("one", "several") for make in PRESETS.values()]
    assert [choice.family for choice in made] == ["ar", "masks", "exact"]
    assert [choice.steered for choice in made] == [False, True, False]
    assert [choice.checkpoint for choice in made] == ["one", "several", "several"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_recognised(name: str) -> None:
    assert preset_of(PRESETS[name]("ar", "mars"), "ar", "mars") == name
    assert preset_of(PRESETS[name]("ar", "mars"), "other", "another") == OWN


def test_what_does_not_act_makes_no_difference() -> None:
    assert LaneChoice(checkpoint="m", cache_block_size=64, seed=3).relevant() == LaneChoice(checkpoint="m").relevant()
    drawn = LaneChoice(checkpoint="m", temperature=0.5, seed=3)
    assert drawn.relevant().seed == 3
    assert preset_of(drawn, "ar", "m") == OWN


def test_the_slider_acts_on_following_lanes() -> None:
    assert settings(LaneChoice(checkpoint="m", threshold=0.9)).threshold == 0.7
    assert settings(LaneChoice(checkpoint="m", follows=False, threshold=0.9)).threshold == 0.9
    assert settings(LaneChoice(checkpoint="m", follows=False, threshold=None)).threshold is None
    assert settings(LaneChoice(checkpoint="m", decoder="autoregressive")).threshold is None


def test_the_usual_block_size_is_the_checkpoints() -> None:
    assert settings(LaneChoice(checkpoint="m")).block_size == 16
    assert settings(LaneChoice(checkpoint="m", block_size=4)).block_size == 4
    assert settings(LaneChoice(checkpoint="m"), block_size=None).block_size == 8


def test_a_drafted_lane_needs_two_checkpoints() -> None:
    drafted = LaneChoice(checkpoint="m", decoder="speculative", draft="d")
    assert drafted.checkpoints == ["m", "d"]
    assert drafted.family == "exact"
    assert LaneChoice(checkpoint="m", draft="d").checkpoints == ["m"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"decoder": "magic"}, "The decoder must be one of autoregressive, sliding_window, .*, got 'magic'"),
        ({"score": "entropy"}, "a lane whose score is entropy needs its own τ"),
        (
            {"score": "luck", "follows": False},
            "score must be one of probability, margin, entropy, calibrated, got 'luck'",
        ),
        ({"threshold": 1.5, "follows": False}, "threshold must be between 0 and 1 for probability"),
        ({"block_size": 100}, "block_size must be between 1 and 64, got 100"),
        ({"follows": "yes"}, "follows must be true or false"),
        ({"checkpoint": None}, "checkpoint must be text"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_impossible_choice_gets_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        checked(LaneChoice, {"checkpoint": "m", **given}, "lane B")
    assert str(caught.value).startswith("lane B")


def test_a_choice_comes_back_from_its_fields() -> None:
    choice = LaneChoice(checkpoint="m", follows=False, threshold=0.3, score="entropy", temperature=0.7, block_size=4)
    assert checked(LaneChoice, asdict(choice), "lane B") == choice

"""What the Learn tab draws from: recorded runs that must show what its pages say of them."""

import json
from typing import Any

import pytest

from app import lessons


@pytest.fixture(scope="module")
def material() -> dict[str, Any]:
    return json.loads(lessons.material())


def test_the_material_never_looks_like_markup() -> None:
    assert "<" not in lessons.material()


def test_every_way_of_writing_accepts_what_it_wrote(material: dict[str, Any]) -> None:
    for lane in (material["ar"], material["mars"], material["exact"], *material["sweep"]):
        assert sum(step["accepted"] for step in lane["passes"]) == len(lane["written"])


def test_exact_decoding_wrote_the_text_of_one_token_at_a_time_in_fewer_passes(material: dict[str, Any]) -> None:
    assert material["exact"]["written"] == material["ar"]["written"]
    assert len(material["exact"]["passes"]) < len(material["ar"]["passes"])


def test_exact_decoding_refused_a_draft_somewhere(material: dict[str, Any]) -> None:
    drafts = [sum(proposal[2] == "draft" for proposal in step["proposals"]) for step in material["exact"]["passes"]]
    stood = [step["accepted"] - 1 for step in material["exact"]["passes"]]
    assert any(count > kept for count, kept in zip(drafts, stood, strict=True))


def test_the_thresholds_fall_and_a_first_wrong_answer_appears_after_a_right_one(material: dict[str, Any]) -> None:
    thresholds = [lane["threshold"] for lane in material["sweep"]]
    assert thresholds == sorted(thresholds, reverse=True)
    verdicts = [lane["right"] for lane in material["sweep"]]
    first_wrong = verdicts.index(False)
    assert first_wrong > 0
    assert all(verdicts[:first_wrong])


def test_some_pass_gained_five_tokens(material: dict[str, Any]) -> None:
    assert max(step["accepted"] for step in material["mars"]["passes"]) >= 5


def test_ten_tokens_can_be_written_one_by_one_and_five_of_them_were_sure(material: dict[str, Any]) -> None:
    passes = material["ar"]["passes"]
    assert len(passes) >= 10
    assert sum(step["proposals"][0][1] >= 0.99 for step in passes) >= 5

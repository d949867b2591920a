"""What the Learn tab draws from: recorded runs that must show what its pages say of them."""

import json
import re
from typing import Any

import pytest

from app.compare import problems
from app.tabs import learn


@pytest.fixture(scope="module")
def material(in_node: Any) -> dict[str, Any]:
    made = "({ materialOf }, given) => materialOf(given)"
    found: dict[str, Any] = in_node("learn/course.js", made, json.loads(learn.material()))
    return found


def test_the_material_never_looks_like_markup() -> None:
    assert "<" not in learn.material()


def test_every_way_of_writing_accepts_what_it_wrote(material: dict[str, Any]) -> None:
    for each in (material["ar"], material["mars"], material["exact"], material["small"], *material["sweep"]):
        assert sum(step["row"]["accepted"] for step in each["writing"]) == len(each["lane"]["written"])


def test_exact_decoding_wrote_ars_text_in_fewer_passes(material: dict[str, Any]) -> None:
    assert material["exact"]["lane"]["written"] == material["ar"]["lane"]["written"]
    assert len(material["exact"]["writing"]) < len(material["ar"]["writing"])


def test_the_recorded_threshold_accepts_what_was_recorded(material: dict[str, Any], in_node: Any) -> None:
    counted = """({ SteppedLane }, lane) => {
        const stepped = new SteppedLane(lane);
        return stepped.writing.map(({ index }) => stepped.wouldAccept(index, 0.95));
    }"""
    small = material["small"]
    assert in_node("step/lane.js", counted, small["lane"]) == [step["row"]["accepted"] for step in small["writing"]]


def test_exact_decoding_refused_a_draft_somewhere(material: dict[str, Any]) -> None:
    rows = [step["row"] for step in material["exact"]["writing"]]
    drafts = [sum(each["source"] == "draft" for each in row["proposals"]) for row in rows]
    assert any(row["accepted"] - 1 < count for row, count in zip(rows, drafts, strict=True))


def test_the_problem_can_be_asked_again(material: dict[str, Any]) -> None:
    assert not re.search(r"\b1 [a-z]+s\b", material["prompt"])
    assert problems.find(material["problem"]["task"], material["problem"]["seed"]).prompt == material["prompt"]


def test_the_real_model_wrote_one_text_three_ways(material: dict[str, Any]) -> None:
    assert [material[way]["lane"]["checkpoint"] for way in ("ar", "mars", "exact")] == [
        "smollm2-135m-sft",
        "smollm2-135m-mars",
        "smollm2-135m-mars",
    ]
    assert material["mars"]["lane"]["written"] == material["ar"]["lane"]["written"]
    assert max(step["row"]["accepted"] for step in material["mars"]["writing"]) >= 3


def test_a_wide_pass_costs_less_than_several(material: dict[str, Any]) -> None:
    times = material["passTimes"]["times"]
    seconds = {each["columns"]: each["seconds"] for each in times}
    assert next(iter(seconds)) == 1
    assert list(seconds) == sorted(seconds)
    assert seconds[8] < 8 * seconds[1] / 2
    assert material["passTimes"]["checkpoint"] == "smollm2-135m"

from __future__ import annotations

import pandas as pd
import pytest

from analysis.figures.words import natural
from app.tradeoffs import view as filters
from app.tradeoffs.run_cache import RunCache


@pytest.fixture(scope="module")
def found(run_cache: RunCache) -> pd.DataFrame:
    return filters.facets(run_cache.table())


def counts(found: pd.DataFrame, chosen: filters.Chosen, name: str) -> dict[str, int]:
    (listed,) = [each for each in filters.options(found, chosen) if each["name"] == name]
    return {option["value"]: option["count"] for option in listed["options"]}


def test_only_measured_runs_can_be_chosen(found: pd.DataFrame, run_cache: RunCache) -> None:
    assert len(found) == len(run_cache.store().runs.entries)
    assert set(found["checkpoint"]) == {"ar", "mars", "mars-b4"}


def test_properties_are_told_in_words(found: pd.DataFrame) -> None:
    assert set(found["block_size"]) == {"no blocks", "B = 8", "B = 4"}
    assert set(found["sft_loss"]) == {"not of masks", "with SFT loss"}
    assert set(found["score"]) == {"no threshold", "probability", "margin"}
    assert set(found["scale"]) == {"1,000"}


@pytest.mark.parametrize(("size", "words"), [(3_544_320, "3.5 M"), (494_032_768, "494 M"), (7.6e9, "7.6 B")])
def test_scales(size: float, words: str) -> None:
    (scale,) = [each for each in filters.FILTERS if each.name == "scale"]
    assert scale.value({"model.parameters": size}) == words


def test_a_filter_lets_the_chosen_values_through(found: pd.DataFrame) -> None:
    passes = filters.through(found, {"checkpoint": ["mars"], "batch_size": ["1", "4"]})
    assert set(found[passes]["checkpoint"]) == {"mars"}
    assert set(found[passes]["batch_size"]) == {"1", "4"}
    assert filters.through(found, {"checkpoint": []}).all()


def test_counts_are_what_a_value_would_show_with_the_other_filters(found: pd.DataFrame) -> None:
    chosen = {"checkpoint": ["mars-b4"], "batch_size": ["16"]}
    assert counts(found, chosen, "checkpoint") == {"ar": 1, "mars": 6, "mars-b4": 1}
    assert counts(found, chosen, "batch_size") == {"1": 0, "4": 0, "16": 1}


def test_a_property_that_all_runs_share_is_no_choice(found: pd.DataFrame) -> None:
    assert {"scale", "hardware"}.isdisjoint(each["name"] for each in filters.options(found, {}))


def test_values_that_no_run_has_are_forgotten(found: pd.DataFrame) -> None:
    assert filters.known(found, {"checkpoint": ["mars", "gone"], "decoder": ["gone"]}) == {"checkpoint": ["mars"]}


def test_numbers_sort_as_numbers() -> None:
    assert sorted(["B = 16", "no blocks", "B = 4"], key=natural) == ["B = 4", "B = 16", "no blocks"]
    assert sorted(["16", "1", "4"], key=natural) == ["1", "4", "16"]

import csv

import pytest

from app.board.lane import Plan
from app.tabs.compare import PUBLISHED, published, threshold_of, threshold_words
from mars.schema import adapter


def test_the_marks_are_the_thresholds_of_the_paper() -> None:
    marks = published()
    assert marks == sorted(set(marks))
    assert 0.95 in marks
    with PUBLISHED.open(encoding="utf-8") as file:
        paper = {float(row["threshold"]) for row in csv.DictReader(file) if row["threshold"]}
    assert paper - set(marks) == {1.0}


def test_the_sliders_end_is_one_token() -> None:
    assert threshold_of(1.0) is None
    assert threshold_of(0.7) == 0.7
    assert (threshold_words(1), threshold_words(0.7)) == ("one token per pass", "τ = 0.70")


@pytest.mark.parametrize("value", [0.49, 1.01, float("nan"), None, "0.9", True])
def test_the_slider_has_no_other_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"The threshold must be a number from 0.5 to 1"):
        threshold_of(value)


def test_ten_thousand_moves_leave_nothing_behind() -> None:
    threshold_of(0.6), Plan(first=1)
    known = adapter.cache_info().currsize
    for number in range(10_000):
        threshold_of(0.5 + number / 20_000)
    Plan(first=2)
    assert adapter.cache_info().currsize == known

"""What is said of a load test, from made-up answers."""

from __future__ import annotations

import random

import pytest

from analysis.runs.loads import Comparison, InTime
from tests.performance.asking import Asked
from tests.performance.traces import Answers
from tests.performance.verdict import GAIN, PART, best_of, compared, faster, judgement, points_gained, sentences

LIMITS = InTime(ttft=1.0, tpot=0.1)


def answers(in_time: list[bool], each: float = 0.05) -> Answers:
    """Answers that are in time, or begin too late."""
    return [
        (number, Asked(status=200, tokens=11, first=first, seconds=first + 10 * each, finish="stop"))
        for number, first in enumerate(0.5 if one else 3.0 for one in in_time)
    ]


def over(ours: list[bool], theirs: list[bool], *, turns: int = 1, run: int = 8) -> Comparison:
    found = compared(("0.9", "exact", "copy"), [answers(ours)] * turns, [answers(theirs)] * turns, LIMITS, run)
    assert found is not None
    return found


def test_an_answer_is_in_time_if_all_of_it_is() -> None:
    late = Asked(status=200, tokens=2, first=1.5, seconds=1.6, finish="stop")
    found: Answers = [(0, late), *answers([True], 0.2), (2, Asked(status=429)), (3, answers([True])[0][1])]
    compare = compared(("1", "exact", "ar"), [found], [answers([True] * 4)], LIMITS, 8)
    assert compare is not None
    assert (compare.value, compare.lost) == (0.25, 3)


def test_lanes_that_do_not_differ_are_as_sure_as_there_are_requests() -> None:
    few, many = over([True] * 20, [True] * 20), over([True] * 65, [True] * 65, turns=2)
    assert (few.n, few.value, many.n, many.value) == (20, 1.0, 130, 1.0)
    assert judgement(few, PART) == "reached, not shown"
    assert judgement(many, PART) == "shown"
    assert few.low < many.low < 1 < many.high < few.high


def test_requests_that_wait_for_each_other_say_less_than_as_many_that_do_not() -> None:
    """A queue makes all sixteen of a run late, in one lane or in the other."""
    together = [number // 16 % 2 == 0 for number in range(96)]
    apart = [number % 2 == 0 for number in range(96)]
    found = {name: over(one, [not late for late in one]) for name, one in (("together", together), ("apart", apart))}
    assert found["together"].value == found["apart"].value == 1.0
    assert (found["together"].gained, found["together"].lost) == (48, 48)
    assert found["together"].low < found["apart"].low - 0.1


def test_a_lane_that_loses_is_told_apart_from_one_that_may_have_had_bad_luck() -> None:
    dice = random.Random(1)
    ours = [dice.random() < 0.7 for _ in range(200)]
    found = over(ours, [True] * 200)
    assert found.value == sum(ours) / 200
    assert (found.gained, found.lost) == (0, 200 - sum(ours))
    assert judgement(found, PART) == "missed"
    assert judgement(over([*[True] * 19, False], [True] * 20), PART) == "missed, perhaps by chance"


def test_no_goodput_is_no_measure() -> None:
    assert compared(("1", "exact", "copy"), [answers([True])], [answers([False])], LIMITS, 8) is None


def test_the_best_is_in_time_most_often_and_of_equals_the_fastest() -> None:
    found = {
        "ar": [answers([True, True])],
        "copy": [answers([True, True], 0.02)],
        "tree": [answers([True, False], 0.01)],
    }
    assert best_of(found, ("ar", "copy", "tree", "linear"), LIMITS) == "copy"
    assert best_of(found, ("linear",), LIMITS) is None


def test_a_user_gains_what_a_token_takes_less_than_ar_question_by_question() -> None:
    """Question 0 arrives twice and counts once; question 2 has no second token."""

    def answers(*seconds: float) -> list[tuple[int, Asked]]:
        asked = [Asked(status=200, tokens=11, first=1.0, seconds=1.0 + each) for each in seconds]
        return [*zip((0, 0, 1), asked, strict=True), (2, Asked(status=200, tokens=1, first=1.0, seconds=1.0))]

    base, found = answers(4.0, 4.0, 8.0), answers(1.0, 4.0, 2.0)
    gain = faster(found, base)
    assert gain is not None
    assert gain.n == 2
    assert gain.value == pytest.approx((2 * 4) ** 0.5), "2 for question 0, 4 for question 1"
    assert gain.low < gain.value < gain.high
    assert faster(found[:2], base[:2]) is None, "one question has no interval"


def test_a_question_counts_once_however_often_it_came() -> None:
    assert points_gained([(0, True, True)] * 5) is None, "one question has no interval"
    interval, n = points_gained([(0, False, True), (0, True, True), (1, True, False), (2, True, True)]) or (None, 0)
    assert n == 3
    assert interval is not None
    assert interval.value == pytest.approx(100 * (-0.5 + 1 + 0) / 3)
    assert interval.low < interval.value < interval.high
    same, n = points_gained([(number % 50, True, True) for number in range(500)]) or (None, 0)
    assert same is not None
    assert n == 50
    assert same.low == pytest.approx(-same.high)
    assert -9 < same.low < -5, "as of 50 questions, not of 500 answers"


def test_the_verdict_is_a_line_for_each_statement() -> None:
    best, ar = over([True] * 130, [True] * 130), over([True] * 20, [False] * 2 + [True] * 18)
    gain = faster(answers([True] * 24, 0.05), answers([True] * 24, 0.08))
    lines = list(sentences([best, ar], gain, points_gained([(0, True, True), (1, True, False)]), 5.0))
    assert lines[0].startswith("0.9     goodput of exact / copy: 1.000 [0.97")
    assert lines[0].endswith("n 130 (+0 −0); at least 0.97: shown")
    assert "n 20 (+2 −0)" in lines[1]
    assert lines[2].endswith(f"24 questions; at least {GAIN:g}: shown")
    assert lines[3].startswith("from saturation on knob changes accuracy by +50.00 points")
    assert lines[3].endswith("2 questions; at least -5: reached, not shown")

"""Choices that take turns: the one that writes most has most of them, whatever it was at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from mars.decoding.turns import FIRST_TURNS, SETTLING, TURN, Turns

Rates = Mapping[str, float]


def play(
    turns: Turns[str], rates: Rates, count: int, *, seconds: Callable[[int], float | None] = lambda number: 1.0
) -> list[str]:
    """Whose turn it was in `count` turns of choices that write so many tokens a pass."""
    found = []
    for _ in range(count):
        names = set()
        for number in range(TURN):
            name = turns.take(list(rates))
            names.add(name)
            turns.passed(round(1000 * rates[name]), seconds(number))
        [one] = names
        found.append(one)
    return found


def gaps(found: Sequence[str], name: str) -> list[int]:
    places = [place for place, one in enumerate(found) if one == name]
    return [after - before for before, after in pairwise(places)]


def test_each_has_its_first_turns_and_then_mostly_the_best() -> None:
    turns: Turns[str] = Turns()
    rates = {"exact": 1.0, "narrow": 1.1, "linear": 0.9}
    first = play(turns, rates, len(rates) * FIRST_TURNS)
    assert Counter(first) == dict.fromkeys(rates, FIRST_TURNS)
    assert Counter(play(turns, rates, 200))["narrow"] > 180


def test_who_is_further_behind_waits_longer() -> None:
    turns: Turns[str] = Turns()
    found = play(turns, {"best": 1.0, "near": 0.95, "far": 0.85}, 300)[6:]
    near, far = gaps(found, "near"), gaps(found, "far")
    assert near
    assert far
    assert max(near) < min(far)


def test_a_choice_that_becomes_better_is_found() -> None:
    turns: Turns[str] = Turns()
    play(turns, {"one": 1.0, "other": 0.9}, 60)
    assert Counter(play(turns, {"one": 0.8, "other": 0.9}, 100))["other"] > 80


def test_one_turn_is_enough_for_a_choice_that_is_far_behind() -> None:
    turns: Turns[str] = Turns()
    found = play(turns, {"exact": 1.0, "narrow": 0.6, "linear": 0.9}, 100)
    assert Counter(found)["narrow"] == 1
    assert Counter(found)["linear"] >= FIRST_TURNS
    assert not turns.promises("narrow", "exact")


def test_what_others_measured_is_known() -> None:
    turns: Turns[str] = Turns()
    rates = {"exact": 1.0, "narrow": 1.1}
    play(turns, rates, 20)
    assert play(Turns(turns.speeds), rates, 3) == ["narrow"] * 3


def test_interrupted_passes_and_the_first_of_a_turn_speak_for_none() -> None:
    """Nor those whose seconds say nothing."""
    turns: Turns[str] = Turns()

    def seconds(number: int) -> float | None:
        return 100.0 if number < SETTLING or number == TURN - 3 else None if number == TURN - 1 else 1.0

    play(turns, {"one": 1.0, "other": 0.9}, 4, seconds=seconds)
    assert [speed.tokens / speed.seconds for speed in turns.speeds.values()] == [1000, 900]


def test_a_turn_that_is_cut_off_does_not_count_and_what_was_measured_is_kept() -> None:
    turns: Turns[str] = Turns()
    rates = {"exact": 1.0, "at 0.9": 1.2}
    play(turns, rates, 20)
    assert turns.take(list(rates)) == "at 0.9"
    for _ in range(TURN // 2):
        turns.passed(1, 1.0)
    lower = {"exact": 1.0, "at 0.8": 1.3}
    assert Counter(play(turns, lower, 10))["at 0.8"] > 7
    turns.end()
    turns.passed(1, 1.0)
    assert play(turns, rates, 5) == ["at 0.9"] * 5

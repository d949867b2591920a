"""Phrases against a search through the counted answers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.phrases import LEAST, LEAST_ALONE, LEAST_NEXT, LEAST_SHARE, LONGEST, Next, Phrases, count_phrases

Answer = tuple[list[int], int]
ANSWERS = st.lists(st.tuples(st.lists(st.integers(3, 5), min_size=2, max_size=40), st.integers(0, 5)), max_size=4)


def followers(answers: list[Answer], run: tuple[int, ...]) -> Counter[int]:
    """What follows a run, wherever the model wrote the token behind it."""
    return Counter(
        ids[place]
        for ids, first in answers
        for place in range(max(first, len(run)), len(ids))
        if tuple(ids[place - len(run) : place]) == run
    )


@given(answers=ANSWERS)
def test_counts_are_those_of_a_search(answers: list[Answer]) -> None:
    phrases = count_phrases((ids, first, len(ids)) for ids, first in answers)
    for run, found in phrases.behind.items():
        behind = followers(answers, run)
        assert found.seen == behind.total() >= (LEAST_ALONE if len(run) == 1 else LEAST)
        assert behind[found.token_id] == max(behind.values()) >= LEAST_NEXT
        assert found.share == behind[found.token_id] / found.seen >= LEAST_SHARE
        assert 1 <= len(run) <= LONGEST


@given(answers=ANSWERS)
def test_left_out_runs_are_rare_or_redundant(answers: list[Answer]) -> None:
    phrases = count_phrases((ids, first, len(ids)) for ids, first in answers)
    for ids, _ in answers:
        for run in {tuple(ids[place : place + 2]) for place in range(len(ids) - 2)} - phrases.behind.keys():
            behind = followers(answers, run)
            often = max(behind.values(), default=0)
            shorter = phrases.behind.get(run[1:])
            rare = behind.total() < LEAST or often < max(LEAST_NEXT, LEAST_SHARE * behind.total())
            assert rare or (shorter is not None and behind[shorter.token_id] == often)


def test_the_longest_run_at_the_end_decides() -> None:
    one, two, four = (Next(token_id, 0.5, 9) for token_id in (6, 7, 8))
    phrases = Phrases({(5,): one, (4, 5): two, (2, 3, 4, 5): four})
    assert phrases.after((9, 2, 3, 4, 5)) == four, "runs have at most four tokens"
    assert phrases.after((8, 3, 4, 5)) == two
    assert phrases.after((5,)) == one
    assert phrases.after((5, 9)) is None
    assert phrases.after(()) is None


@pytest.mark.parametrize("first", [0, 3])
def test_only_tokens_that_the_model_wrote_are_counted(first: int) -> None:
    """What it reads before them may be the prompt's."""
    phrases = count_phrases([([3, 4, 5, 6], first, 4)] * 8)
    assert phrases.after((3, 4, 5)) == Next(6, 1.0, 8)
    assert (phrases.after((3, 4)) is None) == (first == 3)

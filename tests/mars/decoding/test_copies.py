"""Copies against a search through the whole text."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.decoding.trees import COMPARED, LONGEST, Copies, Follower


def searched(text: list[int], known: int) -> tuple[int | None, int]:
    """The copy behind `text` and the length of its match; the first `known` tokens are real, the others drafts.

    The longest run of at most `LONGEST` tokens at the end that occurred within the real ones, with a token behind it.
    """
    for length in range(min(LONGEST, len(text)), 0, -1):
        for place in range(known - 1, length - 1, -1):
            if text[place - length : place] == text[-length:]:
                matching = 0
                while matching < min(place, COMPARED) and text[place - 1 - matching] == text[-1 - matching]:
                    matching += 1
                return text[place], matching
    return None, 0


@given(text=st.lists(st.integers(3, 6), max_size=60), parts=st.integers(1, 4))
def test_a_copy_is_what_a_search_finds(text: list[int], parts: int) -> None:
    copies = Copies()
    for part in range(parts):
        copies.read(text[part * len(text) // parts : (part + 1) * len(text) // parts])
    assert copies.tokens == text
    follower = Follower(copies)
    assert (follower.token, follower.length) == searched(text, len(text))


@pytest.mark.parametrize("seed", range(5))
def test_drafts_that_are_no_copies_start_anew(seed: int) -> None:
    chance = random.Random(seed)
    text = [chance.randrange(3, 6) for _ in range(30)]
    copies = Copies()
    copies.read(text)
    follower = Follower(copies)
    drafts: list[int] = []
    for _ in range(5):
        wrong = 3 + ((follower.token or 3) - 2) % 3
        assert wrong != follower.token
        follower.read(wrong)
        drafts.append(wrong)
        assert (follower.token, follower.length) == searched([*text, *drafts], len(text))
    assert copies.tokens == text, "drafts are not kept"


def test_a_loop_goes_on_behind_the_text() -> None:
    copies = Copies()
    copies.read([9, 3, 4, 3, 4])
    follower = Follower(copies)
    found = []
    for _ in range(20):
        found.append(follower.token)
        follower.read(follower.token or 0)
    assert found == [3, 4] * 10
    assert follower.length == COMPARED


def test_what_no_answer_holds_is_never_copied() -> None:
    copies = Copies(frozenset({8}))
    copies.read([3, 4, 3, 8, 5, 3])
    follower = Follower(copies)
    assert follower.token == 4, "not 8, which followed last"
    copies = Copies(frozenset({8}))
    copies.read([3, 4, 8, 5, 6, 3])
    follower = Follower(copies)
    assert follower.token == 4
    follower.read(4)
    assert follower.token is None
    follower.read(6)
    assert follower.token == 3

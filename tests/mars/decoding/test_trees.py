"""Plans of trees: what is worth a column, by definition, what is learnt, and copies against a search."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.decoding.trees import (
    COMPARED,
    LONGEST,
    MOST_COLUMNS,
    MOST_DRAFTS,
    SOON,
    Copies,
    Draft,
    Expectation,
    Follower,
    Reach,
)

PRICES = (0.01, 0.04, 0.06, 0.1, 0.2, 0.5)


def drafts(odds: list[float]) -> list[Draft]:
    return [Draft(5 + number, one) for number, one in enumerate(odds)]


def read(tokens: list[int]) -> Copies:
    copies = Copies()
    copies.read(tokens)
    return copies


def by_definition(odds: list[float], reached: list[float], price: float, room: int) -> tuple[int, list[int]]:
    """Drafts and the masks behind each prefix, column by column from the module's text."""
    drafts = 0
    while drafts < min(len(odds), room - 1) and math.prod(odds[: drafts + 1]) >= price:
        drafts += 1
    masks = []
    for right in range(drafts + 1):
        exactly = math.prod(odds[:right]) * (1 - odds[right] if right < drafts else 1)
        masks.append(0)
        for share in reached[: max(0, room - right - 1)]:
            masks[-1] += exactly * (share - price) >= price
    return drafts, masks


@pytest.mark.parametrize("price", PRICES)
def test_a_plan_has_the_columns_that_pay(price: float) -> None:
    chance = random.Random(5)
    seen = set()
    for room, length in itertools.product((1, 2, 4, 50), range(6)):
        expected = Expectation(5)
        scores = [chance.random() for _ in range(length)]
        plan = expected.plan(drafts(scores), price, room)
        count, masks = by_definition(scores, expected.reach.shares, price, room)
        if 1 + count + sum(masks) <= MOST_COLUMNS:
            assert (plan.drafts, list(plan.masks)) == (count, masks)
        assert list(plan.chain) == drafts(scores)[: plan.drafts]
        assert plan.columns <= MOST_COLUMNS
        seen.add(plan.columns)
    assert price > 0.2 or len(seen) > 3


def test_scores_are_calibrated_by_what_was_right() -> None:
    expected = Expectation(4)
    before = expected.proposal(5, 0.55).odds
    for _ in range(200):
        expected.verified([expected.proposal(5, 0.55), expected.proposal(6, 0.55)], 0)
    assert expected.proposal(5, 0.55).odds < 0.1 < before
    assert expected.proposal(5, 0.95) == Expectation(4).proposal(5, 0.95), "another score"
    for _ in range(400):
        expected.verified([expected.proposal(5, 0.55), expected.proposal(6, 0.95)], 2)
    assert expected.proposal(5, 0.55).odds > 0.6
    assert expected.proposal(5, 0.95).odds > 0.9


def test_nothing_is_learnt_behind_a_wrong_draft() -> None:
    expected = Expectation(4)
    expected.verified([expected.proposal(5, score) for score in (0.1, 0.5, 0.95)], 1)
    assert sum(expected.seen) == 2


def test_the_length_of_groups_follows_what_masks_propose() -> None:
    poor, rich = Expectation(4), Expectation(4)
    for _ in range(300):
        poor.reach.learn([0.2, 0.2])
        rich.reach.learn([0.9, 0.9])
    assert rich.reach.shares == sorted(rich.reach.shares, reverse=True)
    assert rich.reach.shares[:2] == pytest.approx([0.9, 0.81], abs=0.01)
    assert poor.reach.shares[:2] == pytest.approx([0.2, 0.04], abs=0.01)
    assert poor.reach.shares[3] < Reach(4).shares[3] < rich.reach.shares[3], "masks that were not there go along"
    assert poor.plan([], 0.06, 50).columns < rich.plan([], 0.06, 50).columns


def test_the_first_mask_that_is_right_says_nothing_of_further_ones() -> None:
    reach = Reach(3)
    _, *further = reach.shares
    reach.learn([1.0])
    assert (reach.shares[0] > Reach(3).shares[0], reach.shares[1:]) == (True, further)
    reach.learn([1.0])
    assert reach.shares[1] > further[0]


def test_what_was_learnt_of_masks_is_forgotten() -> None:
    reach = Reach(3)
    for _ in range(100):
        reach.learn([0.0])
    assert reach.count(0.01) < Reach(3).count(0.01) == 3
    assert [reach.due(spent=False) for _ in range(SOON)] == [False] * (SOON - 1) + [True]
    assert reach.shares == Reach(3).shares
    reach.learn([0.0])
    assert reach.shares[0] == pytest.approx(Reach(3).shares[0] / 2), "what comes first counts most"


def test_the_likelier_of_proposal_and_copy_is_verified() -> None:
    expected = Expectation(4)
    text = read([3, 4, 5, 6, 7, 8, 9, 3, 4, 5])  # 6, 7 and 8 followed 3, 4, 5
    sure, unsure = expected.proposal(9, 0.99), expected.proposal(9, 0.05)
    chain = expected.plan([unsure], 0.06, 50, text).chain
    assert [draft.token_id for draft in chain[:3]] == [6, 7, 8]
    assert {draft.reads for draft in chain} == {"copy"}
    chain = expected.plan([sure], 0.06, 50, text).chain
    assert [(draft.token_id, draft.reads) for draft in chain[:3]] == [(9, "draft"), (3, "copy"), (4, "copy")]
    assert expected.plan([sure], 0.06, 50, read([3, 4, 5])).chain == (sure,), "nothing to copy"


def test_proposals_behind_a_copy_are_left_out() -> None:
    """They read that the proposal was right."""
    expected = Expectation(4)
    proposals = [expected.proposal(9, 0.05), expected.proposal(8, 0.99)]
    chain = expected.plan(proposals, 0.06, 50, read([3, 4, 5, 6, 7, 3, 4, 5])).chain
    assert [draft.token_id for draft in chain[:2]] == [6, 7]


def test_copies_are_calibrated_by_length_of_match() -> None:
    expected = Expectation(4)
    assert [expected.copy(5, length).odds for length in (1, 2, 3, 16)] == [0.25, 0.5, 0.65, 0.98]
    for _ in range(200):
        expected.verified([expected.copy(5, 2)], 1)
    assert expected.copy(5, 2).odds > 0.9
    assert expected.copy(5, 1).odds == 0.25


def test_a_loop_is_copied_and_has_no_masks() -> None:
    """The next copy is surer than what a mask would propose."""
    loop = read([3, 4, 5] * 20)
    plan = Expectation(4).plan([], 0.06, 50, loop)
    assert [draft.token_id for draft in plan.chain] == ([3, 4, 5] * 20)[:MOST_DRAFTS]
    assert sum(plan.masks) == 0
    assert Expectation(4).plan([], 0.06, 5, loop).drafts == 4, "no more than there is room for"
    assert Expectation(4).plan([], 0.06, 50, loop, 2).drafts == 2
    assert sum(Expectation(4).plan([], 0.06, 50, read([3, 4, 5])).masks) > 0


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

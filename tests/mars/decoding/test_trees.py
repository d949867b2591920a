"""Plans of trees: what is worth a column, by the definition, and what is learnt from the drafts."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from mars.decoding.trees import MOST_COLUMNS, Expectation, Plan

PRICES = (0.01, 0.04, 0.06, 0.1, 0.2, 0.5)


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
def test_every_column_that_pays_is_there_and_no_other(price: float) -> None:
    chance = random.Random(5)
    seen = set()
    for room, length in itertools.product((1, 2, 4, 50), range(6)):
        expected = Expectation(5)
        scores = [chance.random() for _ in range(length)]
        plan = expected.plan(scores, scores, price, room)
        drafts, masks = by_definition(scores, expected.reached, price, room)
        if 1 + drafts + sum(masks) <= MOST_COLUMNS:
            assert (plan.drafts, list(plan.masks)) == (drafts, masks)
        assert plan.scores == tuple(scores[: plan.drafts])
        assert plan.columns <= MOST_COLUMNS
        seen.add(plan.columns)
    assert price > 0.2 or len(seen) > 3


def test_a_dear_column_leaves_the_root_alone() -> None:
    assert Expectation(4).plan([], [], 0.9, 50) == Plan((), (0,))


def test_sure_drafts_get_their_masks_at_the_end() -> None:
    sure, unsure = (Expectation(4).plan([], [odds] * 4, 0.06, 50).masks for odds in (0.98, 0.3))
    assert (sure[:-1], sure[-1] >= 2) == ((0, 0, 0, 0), True)
    assert unsure[0] > unsure[-1]


def test_groups_start_one_behind_the_other() -> None:
    plan = Plan((0.5, 0.5), (3, 0, 2))
    assert (plan.drafts, plan.columns, plan.starts) == (2, 8, [3, 6, 6])


def test_scores_are_calibrated_by_what_was_right() -> None:
    expected = Expectation(4)
    before = expected.odds(0.55)
    for _ in range(200):
        expected.verified([0.55, 0.55], 0)
    assert expected.odds(0.55) < 0.1 < before
    assert expected.odds(0.95) == Expectation(4).odds(0.95), "another score"
    for _ in range(400):
        expected.verified([0.55, 0.95], 2)
    assert expected.odds(0.55) > 0.6
    assert expected.odds(0.95) > 0.9


def test_the_first_wrong_draft_is_the_last_to_learn_from() -> None:
    expected = Expectation(4)
    expected.verified([0.1, 0.5, 0.95], 1)
    assert sum(expected.seen) == 2


def test_the_length_of_groups_follows_what_masks_propose() -> None:
    poor, rich = Expectation(4), Expectation(4)
    for _ in range(300):
        poor.proposed([0.2, 0.2])
        rich.proposed([0.9, 0.9])
    assert rich.reached == sorted(rich.reached, reverse=True)
    assert rich.reached[:2] == pytest.approx([0.9, 0.81], abs=0.01)
    assert poor.reached[:2] == pytest.approx([0.2, 0.04], abs=0.01)
    assert poor.reached[3] < Expectation(4).reached[3] < rich.reached[3], "masks that were not there go along"
    assert poor.plan([], [], 0.06, 50).columns < rich.plan([], [], 0.06, 50).columns
    assert [rich.usual(0), rich.usual(1)] == pytest.approx([0.9, 0.9], abs=0.01)

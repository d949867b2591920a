"""Scores and accepted prefixes against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from mars.acceptance import SCORES, accepted_lengths, judge, passes

PROBABILITIES = torch.tensor([[[0.5, 0.3, 0.2, 0.0], [0.1, 0.8, 0.05, 0.05]]])


def score(name: str) -> list[float]:
    logits = PROBABILITIES.log() + 3.0
    return SCORES[name](logits, logits.logsumexp(-1)).flatten().tolist()


def lengths(
    scores: list[list[float]], ids: list[list[int]], threshold: float | None, room: list[int] | None = None
) -> list[int]:
    result = accepted_lengths(
        torch.tensor(ids),
        torch.tensor(scores),
        threshold=threshold,
        score="probability",
        stop_ids=torch.tensor([2]),
        room_R=torch.tensor(room or [99] * len(ids)),
    )
    return result.tolist()


def test_probability_is_that_of_the_top_token() -> None:
    assert score("probability") == pytest.approx([0.5, 0.8])


def test_margin_is_the_lead_over_the_second() -> None:
    assert score("margin") == pytest.approx([0.2, 0.7])


def test_entropy_is_in_nats_and_takes_a_forbidden_token() -> None:
    expected = [-sum(p * math.log(p) for p in row if p) for row in PROBABILITIES[0].tolist()]
    assert score("entropy") == pytest.approx(expected)


@pytest.mark.parametrize(("name", "expected"), [("probability", [True, True, False]), ("entropy", [False, True, True])])
def test_a_score_equal_to_the_threshold_passes(name: str, expected: list[bool]) -> None:
    assert passes(torch.tensor([0.9, 0.5, 0.1]), 0.5, name).tolist() == expected


def test_scores_are_compared_as_a_reader_of_the_records_would() -> None:
    """0.95 in float32 is below 0.95: the test in float32 would let pass what `score >= threshold` refuses."""
    below = torch.tensor([0.95])
    assert passes(below, 0.95, "probability").tolist() == [below.item() >= 0.95] == [False]


def test_the_accepted_prefix_ends_before_the_first_score_that_fails() -> None:
    scores = [[0.1, 0.9, 0.9, 0.1, 0.9], [0.9, 0.1, 0.9, 0.9, 0.9], [0.9] * 5]
    assert lengths(scores, [[5] * 5] * 3, 0.5) == [3, 1, 5]


def test_the_accepted_prefix_ends_with_the_first_stop_token() -> None:
    ids = [[2, 5, 5], [5, 2, 5], [5, 5, 2], [5, 5, 5]]
    assert lengths([[1.0] * 3] * 4, ids, 0.0) == [1, 2, 3, 3]


def test_the_accepted_prefix_fits_the_room_of_its_row() -> None:
    assert lengths([[1.0] * 4] * 3, [[5] * 4] * 3, 0.5, room=[1, 3, 9]) == [1, 3, 4]


def test_no_threshold_accepts_one() -> None:
    assert lengths([[1.0] * 4] * 2, [[5] * 4] * 2, None) == [1, 1]


def test_no_stop_tokens() -> None:
    judgement = judge(
        PROBABILITIES.log(), threshold=0.0, score="probability", stop_token_ids=(), room=[5], alternatives=0
    )
    assert (judgement.accepted, judgement.ids) == ([2], [[0, 1]])
    assert judgement.alternatives == [[(), ()]]


def test_large_token_ids_stay_exact() -> None:
    logits = torch.zeros(1, 1, 200_000)
    logits[0, 0, 151_643] = 9.0
    judgement = judge(logits, threshold=None, score="margin", stop_token_ids=(), room=[1], alternatives=2)
    assert judgement.ids == [[151_643]]
    assert judgement.alternatives[0][0][0][0] == 151_643

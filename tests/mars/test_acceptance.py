"""Scores and accepted prefixes against their definitions; tests/mars/test_reference.py compares whole texts."""

import math

import pytest
import torch

from mars.acceptance import SCORES, Read, passes, read, thresholds, to_host
from mars.config import DecodingSettings, ScoreName
from mars.sampling import Sampling

PROBABILITIES = torch.tensor([[[0.5, 0.3, 0.2, 0.0], [0.1, 0.8, 0.05, 0.05]]])


def read_of(logits: torch.Tensor, score: ScoreName = "probability", alternatives: int = 0, **options: float) -> Read:
    rows, columns = logits.shape[:2]
    sampling = Sampling.of([DecodingSettings(**options)] * rows, "cpu")
    positions = torch.arange(columns).expand(rows, columns)
    return read(logits, positions, score=score, sampling=sampling, alternatives=alternatives)


def scores_of(name: ScoreName, **options: float) -> list[float]:
    return read_of(PROBABILITIES.log() + 3.0, name, **options).scores_RW.flatten().tolist()


def test_scores_are_those_of_appendix_d() -> None:
    entropies = [-sum(p * math.log(p) for p in row if p) for row in PROBABILITIES[0].tolist()]
    assert scores_of("probability") == pytest.approx([0.5, 0.8])
    assert scores_of("margin") == pytest.approx([0.2, 0.7])
    assert scores_of("entropy") == pytest.approx(entropies)


def test_a_draws_probability_is_the_models_own() -> None:
    """Whatever the temperature and top-p it was drawn with."""
    logits = PROBABILITIES.log().repeat(1, 50, 1)
    made = read_of(logits, temperature=3.0, top_p=0.9, seed=1)
    assert made.ids_RW.unique().tolist() == [0, 1, 2, 3]
    expected = PROBABILITIES.repeat(1, 50, 1).gather(-1, made.ids_RW[..., None])[..., 0]
    torch.testing.assert_close(made.scores_RW, expected.double())


@pytest.mark.parametrize("name", ["margin", "entropy"])
def test_margin_and_entropy_ignore_the_draw(name: ScoreName) -> None:
    assert scores_of(name, temperature=5.0, seed=3) == scores_of(name)


def test_alternatives_do_not_change_the_score() -> None:
    logits = torch.randn(3, 7, 500, generator=torch.Generator().manual_seed(0)) * 3
    for name in SCORES:
        assert torch.equal(read_of(logits, name).scores_RW, read_of(logits, name, alternatives=3).scores_RW)
    found = read_of(logits, alternatives=3)
    assert torch.equal(found.scores_RW, logits.softmax(-1).amax(-1).double()), "rows keep their order"
    assert found.alternatives is not None
    assert torch.equal(found.alternatives[0], logits.topk(3).indices)


def test_scores_are_compared_as_records_show_them() -> None:
    """0.95 in float32 is below 0.95: the test in float32 would let pass what `score >= threshold` refuses."""
    below = torch.tensor([[0.95]])
    limits = thresholds([0.95], "probability", "cpu")
    assert passes(below, limits, "probability").tolist() == [[below.item() >= 0.95]] == [[False]]


@pytest.mark.parametrize(("name", "expected"), [("probability", [True, True, False]), ("entropy", [False, True, True])])
def test_a_score_equal_to_the_threshold_passes(name: ScoreName, expected: list[bool]) -> None:
    assert passes(torch.tensor([[0.9, 0.5, 0.1]]), thresholds([0.5], name, "cpu"), name).tolist() == [expected]


def test_large_token_ids_stay_exact() -> None:
    logits = torch.zeros(1, 1, 200_000)
    logits[0, 0, 151_643] = 9.0
    result = to_host(torch.ones(1, dtype=torch.int64), read_of(logits, "margin", alternatives=2))
    assert result.ids == [[151_643]]
    assert result.alternatives[0][0][0][0] == 151_643

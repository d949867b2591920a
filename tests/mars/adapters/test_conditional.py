"""The conditional head against its definition, mask by mask and row by row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import ModelEngine
from mars.engine.adapter import HeadWeights
from mars.engine.conditional import ConditionalHead, most_probable
from mars.records import RowPass
from mars.sampling import Sampling, pick
from mars_kernels.cpu.tiles import kind_of_products

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS, MASKS, SIZE, VOCABULARY, CANDIDATES = 3, 4, 16, 50, 6


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {
        "up": torch.randn(20, 2 * SIZE),
        "down": torch.randn(SIZE, 20) * 0.5,
        "embedding": torch.randn(VOCABULARY, SIZE),
        "vocabulary": torch.randn(VOCABULARY, SIZE),
        "bias": torch.randn(VOCABULARY),
    }


def head_of(weights: dict[str, torch.Tensor], candidates: int = CANDIDATES, **changes: Any) -> ConditionalHead:
    given = {**weights, **changes}
    pair = HeadWeights(given["up"], given["down"])
    return ConditionalHead(pair, given["embedding"], given["vocabulary"], given["bias"], candidates)


def rms(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean() + 1e-6)


def conditional(
    weights: dict[str, torch.Tensor], logits_V: torch.Tensor, state_E: torch.Tensor, before: int
) -> torch.Tensor:
    """Probabilities [V] of one mask after the token `before`."""
    inputs = torch.cat([rms(weights["embedding"][before]), rms(state_E)])
    c = state_E + weights["down"] @ torch.nn.functional.silu(weights["up"] @ inputs)
    own = logits_V.softmax(0)
    best = own.topk(CANDIDATES).indices
    logits = weights["vocabulary"][best] @ c + weights["bias"][best]
    return own.clone().scatter_(0, best, logits.softmax(0) * own[best].sum())


@pytest.fixture
def group() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits [R, M, V], hidden states [R, M, E], and the tokens before [R]."""
    torch.manual_seed(4)
    return torch.randn(ROWS, MASKS, VOCABULARY) * 2, torch.randn(ROWS, MASKS, SIZE), torch.tensor([7, 8, 7])


def test_masks_are_ranked_by_the_token_before(
    weights: dict[str, torch.Tensor], group: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    logits, states, before = group
    found = logits.clone()
    ids = head_of(weights).rerank_(found, states, before)
    changed = False
    for row in range(ROWS):
        last = int(before[row])
        for mask in range(MASKS):
            expected = conditional(weights, logits[row, mask], states[row, mask], last)
            torch.testing.assert_close(found[row, mask].softmax(0), expected, atol=1e-6, rtol=1e-4)
            last = int(expected.argmax())
            assert int(ids[row, mask]) == last
            changed |= last != int(logits[row, mask].argmax())
    assert changed


def test_drawn_tokens_are_what_the_next_masks_see(
    weights: dict[str, torch.Tensor], group: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    """Drawn from the conditional distribution with the noise of seed and position."""
    logits, states, before = group
    settings = [DecodingSettings(temperature=1.5, seed=row) for row in range(ROWS)]
    sampling = Sampling.of(settings, "cpu")
    positions = torch.arange(MASKS).repeat(ROWS, 1) + 5

    def draw(mask: int, logits_RV: torch.Tensor) -> torch.Tensor:
        return pick(logits_RV[:, None], positions[:, mask, None], sampling)[:, 0]

    ids = head_of(weights).rerank_(logits.clone(), states, before, draw)
    for row in range(ROWS):
        last = int(before[row])
        for mask in range(MASKS):
            expected = conditional(weights, logits[row, mask], states[row, mask], last).log()[None, None]
            one = Sampling.of([settings[row]], "cpu")
            last = int(pick(expected, positions[row : row + 1, mask : mask + 1], one))
            assert int(ids[row, mask]) == last


def test_what_the_model_never_predicts_is_no_candidate(
    weights: dict[str, torch.Tensor], group: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    logits, states, before = group
    logits[..., 9:] = -math.inf
    ids = head_of(weights, candidates=20).rerank_(logits, states, before)
    assert int(ids.max()) < 9
    assert bool((logits[..., 9:] == -math.inf).all())
    torch.testing.assert_close(logits.softmax(-1).sum(-1), torch.ones(ROWS, MASKS))


def test_more_candidates_than_tokens_are_all_of_them(
    weights: dict[str, torch.Tensor], group: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    logits, states, before = group
    ids = head_of(weights, candidates=1000).rerank_(logits, states, before)
    assert torch.equal(ids, logits.argmax(-1))


@pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2")
def test_steady_products_in_bfloat16_are_those_in_float32() -> None:
    """By kernels of our own; each row has the same bits alone."""
    generator = torch.Generator().manual_seed(6)

    def drawn(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) / shape[-1] ** 0.5).bfloat16()

    up, down, embedding, vocabulary = drawn(64, 128), drawn(64, 64), drawn(300, 64), drawn(300, 64)
    head = ConditionalHead(HeadWeights(up, down), embedding, vocabulary, None, 20, steady=True)
    wide = ConditionalHead(HeadWeights(up.float(), down.float()), embedding, vocabulary, None, 20)
    logits, states, before = 4 * drawn(ROWS, MASKS, 300).float(), 8 * drawn(ROWS, MASKS, 64), torch.tensor([7, 8, 7])
    found, expected = logits.clone(), logits.clone()
    ids = head.rerank_(found, states, before)
    wide.rerank_(expected, states, before, lambda mask, _: ids[:, mask])
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)
    for row in range(ROWS):
        alone = logits[row : row + 1].clone()
        assert torch.equal(head.rerank_(alone, states[row : row + 1], before[row : row + 1])[0], ids[row])
        assert torch.equal(alone[0], found[row])


@pytest.mark.parametrize("vocabulary", [49152, 640, 1000])
def test_the_likeliest_tokens_are_found_by_block(vocabulary: int) -> None:
    torch.manual_seed(5)
    logits = torch.randn(2, 3, vocabulary)
    logits[0, 0, 64:128] += 9.0  # many in one block
    values, ids = most_probable(logits, 32)
    expected = logits.topk(32)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.indices)


def test_scores_are_those_of_the_conditional_distribution(engine_of: Callable[..., ModelEngine]) -> None:
    """They stay probabilities, and the listed alternatives are of the same distribution."""
    engine = engine_of(head=True)
    settings = DecodingSettings(max_new_tokens=12, block_size=4, threshold=0.2, alternatives=3)
    plain = DecodingSettings(max_new_tokens=12, block_size=4, threshold=0.2, alternatives=3, score="margin")
    for record in DECODERS["sliding_window"](engine, [[5, 6, 7]], settings):
        for row in record.rows:
            check_alternatives(row)
    entropy = DecodingSettings(max_new_tokens=12, block_size=4, threshold=2.0, score="entropy")
    for options in (plain, entropy):
        for record in DECODERS["sliding_window"](engine, [[5, 6, 7]], options):
            assert all(proposal.score >= 0 for row in record.rows for proposal in row.proposals)


def check_alternatives(row: RowPass) -> None:
    for proposal in row.proposals:
        assert 0 < proposal.score <= 1
        best, probability = proposal.alternatives[0]
        assert best == proposal.token_id
        assert probability == pytest.approx(proposal.score, abs=1e-6)

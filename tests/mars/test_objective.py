import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM

from mars.training.data import IGNORED, Collator, Conversation
from mars.training.objective import (
    block_diffusion_losses,
    hide,
    label_columns,
    mars_losses,
    sft_losses,
    two_streams,
)
from tests.mars.tiny import sizes

MASK, END, VOCABULARY = 30, 31, 32


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**sizes(vocab_size=VOCABULARY, initializer_range=0.3))).eval()


def _example(ids: tuple[int, ...], response: int) -> Conversation:
    """A conversation whose last tokens are the answer."""
    return Conversation(ids, ((len(ids) - response, len(ids)),))


def batch(block_size: int, shift: int = 1) -> dict[str, Tensor]:
    examples = [
        _example(tuple(range(1, 14)), 8),
        _example((7, 3, 9, 9, 2, 4, 1), 3),
    ]
    return Collator(END, block_size, shift)(examples)


def test_labels_are_shifted_and_last_padding_counts() -> None:
    made = Collator(END, 4)([_example((5, 6, 7, 8, 9), 2), _example((1, 2), 1)])
    assert made["input_ids"].tolist() == [[5, 6, 7, 8, 9, END, END, END], [1, 2, END, END, END, END, END, END]]
    x = IGNORED
    assert made["labels"].tolist() == [[x, x, 8, 9, END, END, END, x], [2, END, END, x, x, x, x, x]]


def test_labels_without_shift_keep_their_place() -> None:
    examples = [_example((5, 6, 7, 8, 9), 2), _example((1, 2), 1)]
    made = Collator(END, 4, shift=0)(examples)
    x = IGNORED
    assert made["labels"].tolist() == [[x, x, x, 8, 9, END, END, END], [x, 2, END, END, x, x, x, x]]


@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
def test_clean_stream_equals_the_plain_model(model: Qwen2ForCausalLM, block_size: int) -> None:
    made = batch(block_size)
    length = made["input_ids"].shape[1]
    stream, positions, mask = two_streams(**made, block_size=block_size, mask_token_id=MASK)
    both = model(input_ids=stream, position_ids=positions, attention_mask=mask).logits
    plain = model(input_ids=made["input_ids"]).logits
    torch.testing.assert_close(both[:, :length], plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
def test_a_noisy_block_equals_appended_masks(model: Qwen2ForCausalLM, block_size: int) -> None:
    made = batch(block_size)
    length = made["input_ids"].shape[1]
    stream, positions, mask = two_streams(**made, block_size=block_size, mask_token_id=MASK)
    noisy = model(input_ids=stream, position_ids=positions, attention_mask=mask).logits[:, length:]
    for row in range(2):
        for first in range(0, length, block_size):
            block = stream[row, length + first : length + first + block_size]
            prefix = made["input_ids"][row, :first]
            plain = model(input_ids=torch.cat([prefix, block])[None]).logits[0, first:]
            torch.testing.assert_close(noisy[row, first : first + block_size], plain, atol=1e-5, rtol=0)


def test_the_noisy_stream_masks_response_tokens_only() -> None:
    made = batch(4)
    stream, positions, _ = two_streams(**made, block_size=4, mask_token_id=MASK)
    assert stream[0, 16:].tolist() == [1, 2, 3, 4, 5, *[MASK] * 11]
    assert stream[1, 16:].tolist() == [7, 3, 9, 9, *[MASK] * 4, *[END] * 8]
    assert positions[1].tolist() == [*range(16), *range(16)]


@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_losses_by_hand(model: Qwen2ForCausalLM, block_size: int) -> None:
    made = batch(block_size)
    losses = mars_losses(model, **made, block_size=block_size, mask_token_id=MASK)
    clean_sum = noisy_sum = 0.0
    for ids, labels in zip(made["input_ids"], made["labels"], strict=True):
        log_p = functional.log_softmax(model(input_ids=ids[None]).logits[0], dim=-1)
        response = {i + 1 for i in range(len(ids)) if labels[i] != IGNORED}
        for i, label in enumerate(labels.tolist()):
            if label == IGNORED:
                continue
            clean_sum -= log_p[i, label].item()
            first = i // block_size * block_size
            masked = [MASK if j in response else ids[j].item() for j in range(first, i + 1)]
            appended = torch.tensor([*ids[:first].tolist(), *masked])
            noisy_sum -= functional.log_softmax(model(input_ids=appended[None]).logits[0, -1], dim=-1)[label].item()
    assert losses.tokens.item() == (made["labels"] != IGNORED).sum().item()
    assert losses.autoregressive is not None
    assert losses.autoregressive.item() == pytest.approx(clean_sum, rel=1e-5)
    assert losses.mask is not None
    assert losses.mask.item() == pytest.approx(noisy_sum, rel=1e-5)


def test_sft_loss_is_the_clean_part(model: Qwen2ForCausalLM) -> None:
    made = batch(4)
    alone, both = sft_losses(model, **made), mars_losses(model, **made, block_size=4, mask_token_id=MASK)
    assert alone.autoregressive is not None
    assert both.autoregressive is not None
    assert alone.autoregressive.item() == pytest.approx(both.autoregressive.item(), rel=1e-5)
    assert alone.mask is None


def test_a_uniform_model_loses_log_vocabulary_per_token(model: Qwen2ForCausalLM) -> None:
    uniform = Qwen2ForCausalLM(model.config)
    torch.nn.init.zeros_(uniform.lm_head.weight)
    losses = mars_losses(uniform, **batch(4), block_size=4, mask_token_id=MASK)
    expected = math.log(VOCABULARY) * losses.tokens.item()
    assert losses.mask is not None
    assert losses.mask.item() == pytest.approx(expected, rel=1e-5)
    assert losses.autoregressive is not None
    assert losses.autoregressive.item() == pytest.approx(expected, rel=1e-5)
    diffusion = block_diffusion_losses(uniform, **batch(4, shift=0), block_size=4, mask_token_id=MASK)
    assert diffusion.mask is not None
    assert diffusion.mask.item() == pytest.approx(
        expected, rel=1e-5
    )  # whatever is drawn: the weights sum to the tokens


@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_loss_of_block_diffusion_by_hand(model: Qwen2ForCausalLM, block_size: int) -> None:
    """Block by block: the clean blocks before it and the masked block, and who sees whom spelled out."""
    made = batch(block_size, shift=0)
    torch.manual_seed(5)
    losses = block_diffusion_losses(model, **made, block_size=block_size, mask_token_id=MASK)
    torch.manual_seed(5)
    hidden, weights = hide(made["labels"] != IGNORED, block_size)
    expected = 0.0
    for ids, labels, masked, weight in zip(made["input_ids"], made["labels"], hidden, weights, strict=True):
        for first in range(0, len(ids), block_size):
            end = first + block_size
            text = torch.tensor([MASK if i >= first and masked[i] else int(ids[i]) for i in range(end)])
            sees = torch.tensor([[j // block_size <= i // block_size for j in range(end)] for i in range(end)])
            logits = model(input_ids=text[None], attention_mask=sees[None, None]).logits
            log_p = logits.detach()[0].log_softmax(-1)
            expected -= sum(float(log_p[i, labels[i]] * weight[i]) for i in range(first, end) if masked[i])
    assert losses.autoregressive is None
    assert losses.mask is not None
    assert losses.mask.item() == pytest.approx(expected, rel=1e-5)
    assert losses.tokens.item() == (made["labels"] != IGNORED).sum().item()


def test_blocks_are_masked_evenly_often() -> None:
    torch.manual_seed(0)
    response = torch.tensor([[False, False, False, True, True, True, True, True, False, False, False, False]] * 8000)
    hidden, weights = hide(response, 4)
    assert not (hidden & ~response).any()
    assert (weights > 0).equal(hidden)
    for block, tokens in ((slice(0, 4), 1), (slice(4, 8), 4), (slice(8, 12), 0)):
        assert weights[:, block].sum(1).allclose(torch.tensor(float(tokens)))
        counts = hidden[:, block].sum(1).bincount(minlength=5) / len(response)
        shares = [0 < masks <= tokens for masks in range(5)] if tokens else [True, False, False, False, False]
        assert counts.tolist() == pytest.approx([share / max(tokens, 1) for share in shares], abs=0.02)
    assert hidden[:, 4:8].float().mean(0).tolist() == pytest.approx([5 / 8] * 4, abs=0.02)


def test_block_diffusion_learns_a_tiny_problem(model: Qwen2ForCausalLM) -> None:
    torch.manual_seed(0)
    learner = Qwen2ForCausalLM(model.config)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    means = []
    for _ in range(50):
        losses = block_diffusion_losses(learner, **batch(4, shift=0), block_size=4, mask_token_id=MASK)
        assert losses.mask is not None
        means.append(float(losses.mask.detach() / losses.tokens))
        optimizer.zero_grad()
        (losses.mask / losses.tokens).backward()
        optimizer.step()
    assert sum(means[-5:]) / 5 < 0.2 * means[0]


def test_a_batch_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="response token"):
        label_columns(torch.full((2, 4), IGNORED))

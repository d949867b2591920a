import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM

from mars.training.data import IGNORED, Collator, Conversation
from mars.training.objective import mars_losses, sft_losses
from tests.mars.tiny import sizes

MASK, END, VOCABULARY = 30, 31, 32


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**sizes(vocab_size=VOCABULARY, initializer_range=0.3))).eval()


def _example(ids: tuple[int, ...], response: int) -> Conversation:
    """A conversation whose last tokens are the answer."""
    return Conversation(ids, ((len(ids) - response, len(ids)),))


def batch(block_size: int) -> dict[str, Tensor]:
    examples = [_example(tuple(range(1, 14)), 8), _example((7, 3, 9, 9, 2, 4, 1), 3)]
    return Collator(END, block_size)([*enumerate(examples)])


def test_labels_are_shifted_and_last_padding_counts() -> None:
    made = Collator(END, 4)([(0, _example((5, 6, 7, 8, END), 2)), (1, _example((1, 2), 1))])  # the second is cut off
    assert made["input_ids"].tolist() == [[5, 6, 7, 8, END, END, END, END], [1, 2, END, END, END, END, END, END]]
    x = IGNORED
    assert made["labels"].tolist() == [[x, x, 8, END, END, END, END, x], [2, x, x, x, x, x, x, x]]


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
    assert losses.autoregressive.item() == pytest.approx(clean_sum, rel=1e-5)
    assert losses.mask is not None
    assert losses.mask.item() == pytest.approx(noisy_sum, rel=1e-5)


def test_sft_loss_is_the_clean_part(model: Qwen2ForCausalLM) -> None:
    made = batch(4)
    alone, both = sft_losses(model, **made), mars_losses(model, **made, block_size=4, mask_token_id=MASK)
    assert alone.autoregressive.item() == pytest.approx(both.autoregressive.item(), rel=1e-5)
    assert alone.mask is None

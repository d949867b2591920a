"""The objectives: ordinary SFT, and MARS's L_mask + L_AR over two streams (section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from mars.training.data import IGNORED


@dataclass(frozen=True, slots=True)
class Losses:
    """Sums of cross-entropy in nats over `tokens` labels, each 0-dimensional; `mask` is None without masks."""

    autoregressive: Tensor
    mask: Tensor | None
    tokens: Tensor


def sft_losses(model: PreTrainedModel, input_ids: Tensor, labels: Tensor) -> Losses:
    """L_AR of a batch. `input_ids` and `labels` are [R, L]; labels are already shifted."""
    columns = label_columns(labels)
    logits = model(input_ids=input_ids, logits_to_keep=columns, use_cache=False).logits
    return Losses(_cross_entropy(logits, labels[:, columns]), None, (labels != IGNORED).sum())


def mars_losses(
    model: PreTrainedModel, input_ids: Tensor, labels: Tensor, block_size: int, mask_token_id: int
) -> Losses:
    """L_AR and L_mask of a batch in one forward pass over [clean | noisy].

    `input_ids` and `labels` are [R, L], L a multiple of `block_size`; labels are already shifted. In the noisy stream
    every response token is the mask.
    """
    length = input_ids.shape[1]
    columns = label_columns(labels)
    noisy_start = int(columns[0]) // block_size * block_size
    stream, positions, mask = two_streams(input_ids, labels, block_size, mask_token_id, noisy_start)
    both = torch.cat([columns, columns + length - noisy_start])
    logits = model(
        input_ids=stream, position_ids=positions, attention_mask=mask, logits_to_keep=both, use_cache=False
    ).logits
    clean, noisy = logits.split(len(columns), dim=1)
    wanted = labels[:, columns]
    return Losses(_cross_entropy(clean, wanted), _cross_entropy(noisy, wanted), (labels != IGNORED).sum())


def two_streams(
    input_ids: Tensor, labels: Tensor, block_size: int, mask_token_id: int, noisy_start: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids [R, 2L-s], position ids [R, 2L-s] and boolean mask [R, 1, 2L-s, 2L-s] of [clean | noisy from s]."""
    rows, length = input_ids.shape
    response = torch.zeros_like(labels, dtype=torch.bool)
    response[:, 1:] = labels[:, :-1] != IGNORED
    noisy = input_ids.masked_fill(response, mask_token_id)[:, noisy_start:]
    position = torch.arange(length, device=input_ids.device)
    positions = torch.cat([position, position[noisy_start:]]).expand(rows, -1)
    mask = training_mask(length, block_size, noisy_start, input_ids.device)
    return torch.cat([input_ids, noisy], dim=1), positions, mask.expand(rows, 1, -1, -1)


def training_mask(length: int, block_size: int, noisy_start: int = 0, device: torch.device | None = None) -> Tensor:
    """Two-stream mask of section 3.2 over [clean 0..L-1 | noisy noisy_start..L-1].

    clean→clean: j <= i. noisy→noisy: same block and j <= i. noisy→clean: whole earlier blocks. clean→noisy: never.
    `noisy_start` drops the noisy blocks that lie in every prompt of the batch: nothing reads them and no loss is taken
    there.

    Returns: bool [2L - noisy_start, 2L - noisy_start].
    """
    position = torch.cat([torch.arange(length, device=device), torch.arange(noisy_start, length, device=device)])
    noisy = torch.arange(len(position), device=device) >= length
    query, key = position[:, None], position[None, :]
    query_noisy, key_noisy = noisy[:, None], noisy[None, :]
    causal = (query_noisy == key_noisy) & (key <= query)
    same_block = key // block_size == query // block_size
    earlier_block = key // block_size < query // block_size
    return (causal & (~query_noisy | same_block)) | (query_noisy & ~key_noisy & earlier_block)


def label_columns(labels: Tensor) -> Tensor:
    """Indices of the columns in which any row of `labels` [R, L] has a label: where the vocabulary is projected."""
    return (labels != IGNORED).any(dim=0).nonzero().squeeze(1)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )

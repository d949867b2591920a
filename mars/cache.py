"""A preallocated KV cache with a cursor per row, and its slow twin that recomputes the prefix in every pass.

Shapes: R rows, Q queries, K slots, H key-value heads, D head size, E hidden size, V vocabulary. Slot p + 1 holds
position p; slot 0 takes padding and is seen by padding only, which keeps its attention finite. The causal mask is
always explicit: with `attention_mask=None` a preallocated cache would silently lose its last keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from typing_extensions import override


class Transformer:
    """The two halves of a causal model: hidden states, and the vocabulary projection where it is wanted."""

    def __init__(self, model: PreTrainedModel, mask_token_id: int | None = None):
        self.device: torch.device = model.device
        self.layers: int = model.config.num_hidden_layers
        self._backbone = model.base_model
        self._head = model.get_output_embeddings()
        self._mask_token_id = mask_token_id

    def hidden(
        self, ids_RQ: torch.Tensor, positions_RQ: torch.Tensor, visible_R1QK: torch.Tensor, cache: Cache | None
    ) -> torch.Tensor:
        """Last hidden states [R, Q, E]."""
        output = self._backbone(
            input_ids=ids_RQ,
            position_ids=positions_RQ,
            attention_mask=visible_R1QK,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def logits(self, hidden_RQE: torch.Tensor) -> torch.Tensor:
        """Float32 logits [R, Q, V], -inf for the mask token."""
        logits: torch.Tensor = self._head(hidden_RQE).float()
        if self._mask_token_id is not None:
            logits[..., self._mask_token_id] = -torch.inf
        return logits


class _Layer(CacheLayerMixin):
    """Keys and values of one layer, [R, K, H, D], written where the rows' slots say."""

    is_sliding = False
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, rows: CachedRows):
        super().__init__()
        self._rows = rows

    @override
    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, heads, _, size = key_states.shape
        # Zeros, not empty: a masked slot still meets the attention weights as 0 * value, and 0 * NaN is NaN.
        self.keys = key_states.new_zeros(rows, self._rows.slots, heads, size)
        self.values = torch.zeros_like(self.keys)
        self.is_initialized = True

    @override
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scatter [R, H, Q, D] into the slots of this pass; return all slots up to the furthest one in use."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self._write(self.keys, key_states), self._write(self.values, value_states)

    def _write(self, stored: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        flat = stored.view(-1, *stored.shape[2:])
        flat.index_copy_(0, self._rows.flat_slots, fresh.transpose(1, 2).flatten(0, 1))
        return stored[:, : self._rows.extent].transpose(1, 2)

    def take(self, indices: torch.Tensor) -> None:
        if self.is_initialized:
            self.keys, self.values = self.keys[indices], self.values[indices]

    @override
    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._rows.extent, 0

    def get_seq_length(self) -> int:
        return self._rows.extent

    def get_max_length(self) -> int:
        return self._rows.slots

    def get_max_cache_shape(self) -> int:  # the name of get_max_length in earlier transformers 5
        return self._rows.slots


class CachedRows:
    """Rows whose keys and values stay on the device. Nothing is copied but when a finished row is dropped."""

    def __init__(self, transformer: Transformer, rows: int, capacity: int):
        self.slots = capacity + 1
        self.extent = 0
        self.flat_slots = torch.zeros(0, dtype=torch.long)
        self._transformer = transformer
        self._layers = [_Layer(self) for _ in range(transformer.layers)]
        self._cache = Cache(layers=list(self._layers))
        self._numbers = torch.arange(self.slots, device=transformer.device)
        self._offsets_R1 = torch.arange(rows, device=transformer.device)[:, None] * self.slots

    @torch.inference_mode()
    def forward(self, ids: Sequence[Sequence[int]], slots: Sequence[Sequence[int]], keep: int) -> torch.Tensor:
        """Logits [R, keep, V] of the last `keep` columns; the contract is that of `engine.Rows`."""
        ids_RQ, slots_RQ = _tensors(ids, slots, self._transformer.device)
        self.extent = _extent(slots, self.slots)
        self.flat_slots = (slots_RQ + self._offsets_R1).flatten()
        numbers_K, slots_RQ1 = self._numbers[: self.extent], slots_RQ[..., None]
        visible_RQK = (numbers_K <= slots_RQ1) & ((numbers_K > 0) == (slots_RQ1 > 0))
        hidden = self._transformer.hidden(ids_RQ, (slots_RQ - 1).clamp_min(0), visible_RQK[:, None], self._cache)
        return self._transformer.logits(hidden[:, hidden.shape[1] - keep :])

    @torch.inference_mode()
    def keep(self, indices: Sequence[int]) -> None:
        """Go on with these of the current rows only."""
        kept = torch.tensor(indices, device=self._transformer.device)
        self._offsets_R1 = self._offsets_R1[: len(indices)]
        for layer in self._layers:
            layer.take(kept)


class RecomputedRows:
    """Rows of which only the tokens are kept: each pass runs the model on everything up to the furthest slot."""

    def __init__(self, transformer: Transformer, rows: int, capacity: int):
        self._transformer = transformer
        self._ids = torch.zeros(rows, capacity + 1, dtype=torch.long, device=transformer.device)

    @torch.inference_mode()
    def forward(self, ids: Sequence[Sequence[int]], slots: Sequence[Sequence[int]], keep: int) -> torch.Tensor:
        """Logits [R, keep, V] of the last `keep` columns; the contract is that of `engine.Rows`."""
        ids_RQ, slots_RQ = _tensors(ids, slots, self._transformer.device)
        extent = _extent(slots, self._ids.shape[1])
        self._ids.scatter_(1, slots_RQ, ids_RQ)
        tokens_RK = self._ids[:, 1:extent]
        positions_1K = torch.arange(tokens_RK.shape[1], device=tokens_RK.device)[None]
        causal_KK = positions_1K <= positions_1K.T
        hidden = self._transformer.hidden(tokens_RK, positions_1K, causal_KK[None, None], None)
        wanted_RQ1 = (slots_RQ[:, slots_RQ.shape[1] - keep :, None] - 1).clamp_min(0)
        return self._transformer.logits(hidden.gather(1, wanted_RQ1.expand(-1, -1, hidden.shape[2])))

    def keep(self, indices: Sequence[int]) -> None:
        """Go on with these of the current rows only."""
        self._ids = self._ids[torch.tensor(indices, device=self._ids.device)]


def _tensors(
    ids: Sequence[Sequence[int]], slots: Sequence[Sequence[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(ids, device=device), torch.tensor(slots, device=device)


def _extent(slots: Sequence[Sequence[int]], limit: int) -> int:
    extent = max(row[-1] for row in slots) + 1
    if extent > limit:
        raise ValueError(f"slots must be <= the capacity of {limit - 1}, got {extent - 1}")
    return extent

"""A `transformers` model of any architecture as the cache needs it: the general path, and the slow twin of `Network`.

Shapes: R rows, Q columns, T = R * Q, K slots, H key-value heads, P = 2H of them for keys and values, D head size,
E hidden size, V vocabulary.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from typing_extensions import override

from mars.engine.memory import Access
from mars.engine.window import Window


class Transformer:
    """The modules of a causal model, called with explicit positions and an explicit mask.

    With `attention_mask=None` they would take a preallocated cache for one filled from its start.
    """

    lean = False
    steady = False

    def __init__(self, model: PreTrainedModel, mask_token_id: int | None = None):
        config = model.config
        self.layers: int = config.num_hidden_layers
        self.key_value_heads: int = config.num_key_value_heads
        self.head_size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self._model = model
        self._mask_token_id = mask_token_id

    def rotations(self, positions: int) -> torch.Tensor:
        """Empty: the modules turn queries and keys by themselves."""
        return torch.empty(0)

    def read(self, window: Window, access: Access) -> torch.Tensor:
        """Float32 logits [R, keep, V] of the last columns, -inf for the mask token."""
        if access.mask is None:
            raise ValueError("a Transformer needs a mask, also one that hides nothing")
        output = self._model(
            input_ids=window.ids_RQ,
            position_ids=window.positions,
            attention_mask=access.mask,
            past_key_values=Cache(layers=[_Layer(access, number) for number in range(self.layers)]),
            use_cache=True,
            logits_to_keep=max(window.keep, 1),  # 0 would keep all
        )
        logits: torch.Tensor = output.logits[:, output.logits.shape[1] - window.keep :].float()
        if self._mask_token_id is not None:
            logits[..., self._mask_token_id] = -torch.inf
        return logits


class _Layer(CacheLayerMixin):
    """One layer of one pass, as `transformers` asks for it."""

    is_sliding = False

    def __init__(self, access: Access, number: int):
        super().__init__()
        self.is_initialized = True
        self._access = access
        self._number = number

    @override
    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the memory is there."""

    @override
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [R, H, Q, D]; return all keys and values that the pass may see."""
        keys_values_RPQD = torch.cat((key_states, value_states), 1)
        self._access.write(self._number, keys_values_RPQD.transpose(1, 2).flatten(0, 1))
        return self._access.read(self._number)

    @override
    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length(), 0

    def get_seq_length(self) -> int:
        return self._access.read(self._number)[0].shape[2]

    def get_max_length(self) -> int:
        return self.get_seq_length()

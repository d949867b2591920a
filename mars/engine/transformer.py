"""A `transformers` model of any architecture as the cache needs it: the general path, and the slow twin of `Network`.

Shapes: R rows, Q columns, T = R * Q, K slots, H key-value heads, P = 2H of them for keys and values, D head size,
E hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
import threading
import weakref
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from typing_extensions import override

from mars.engine.adapter import Adapter, LowRank, linear_of
from mars.engine.gated import is_mask, mask_numbers
from mars.engine.memory import Access
from mars.engine.window import Window


class Transformer:
    """The modules of a causal model, called with explicit positions and an explicit mask.

    With `attention_mask=None` they would take a preallocated cache for one filled from its start. With an adapter
    (`adapted`) forward hooks on the linear layers add what it adds to the columns of masks, in these calls alone.
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
        self._backbone = model.base_model
        self._head = model.get_output_embeddings()
        self._mask_token_id = mask_token_id
        self._vocabulary: int = config.vocab_size
        self._adapter: Adapter | None = None
        self._gate = threading.local()

    def adapted(self, adapter: Adapter) -> Transformer:
        """The same model with an adapter, which must fit (`Adapter.check`); others may use the model as it is."""
        other = copy.copy(self)
        other._mask_token_id = None
        other._adapter = adapter.to(self.device, self.dtype)
        other._gate = threading.local()
        for layer, pairs in zip(self._backbone.layers, other._adapter.layers, strict=False):
            for name, pair in pairs.items():
                handle = linear_of(layer, name).register_forward_hook(_hook(other._gate, pair))
                weakref.finalize(other, handle.remove)
        return other

    def rotations(self, positions: int) -> torch.Tensor:
        """Empty: the modules turn queries and keys by themselves."""
        return torch.empty(0)

    def read(self, window: Window, access: Access) -> torch.Tensor:
        """Float32 logits [R, keep, V] of the last columns, -inf for the mask token."""
        if access.mask is None:
            raise ValueError("a Transformer needs a mask, also one that hides nothing")
        cache = Cache(layers=[_Layer(access, number) for number in range(self.layers)])
        hidden_RQE = self.hidden(window.ids_RQ, window.positions, access.mask, window.seen, cache)
        kept_RWE = hidden_RQE[:, window.columns - window.keep :]
        access.states.append(kept_RWE)
        return self.logits(kept_RWE)

    def hidden(
        self,
        ids_RQ: torch.Tensor,
        positions_RQ: torch.Tensor,
        mask_R1QK: torch.Tensor,
        seen_RQQ: torch.Tensor,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """Last hidden states [R, Q, E]; `mask` is bool, True where a query sees a key, or added to the scores.

        `seen` says which columns each column sees: an adapter counts masks by it.
        """
        inputs: dict[str, Any] = {"input_ids": ids_RQ}
        if self._adapter is not None:
            masks_RQ = is_mask(ids_RQ, self._vocabulary)
            self._gate.masks_RQ1 = masks_RQ[..., None]
            inputs = {"inputs_embeds": self._embedded(self._adapter, ids_RQ, mask_numbers(masks_RQ, seen_RQQ))}
        try:
            output = self._backbone(
                **inputs,
                position_ids=positions_RQ,
                attention_mask=mask_R1QK,
                past_key_values=cache,
                use_cache=cache is not None,
            )
        finally:
            self._gate.masks_RQ1 = None
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def _embedded(self, adapter: Adapter, ids_RQ: torch.Tensor, numbers_RQ: torch.Tensor) -> torch.Tensor:
        """The input of the first layer [R, Q, E]: the embeddings of tokens, and of masks by their numbers."""
        tokens_RQE = self._backbone.get_input_embeddings()(ids_RQ.clamp_max(self._vocabulary - 1))
        masks_RQE = adapter.mask_embeddings[numbers_RQ.clamp_max(len(adapter.mask_embeddings) - 1)]
        return torch.where(self._gate.masks_RQ1, masks_RQE, tokens_RQE)

    def logits(self, hidden_RQE: torch.Tensor) -> torch.Tensor:
        """Float32 logits [R, Q, V], -inf for the mask token."""
        logits: torch.Tensor = self._head(hidden_RQE).float()
        if self._mask_token_id is not None:
            logits[..., self._mask_token_id] = -torch.inf
        return logits


def _hook(gate: threading.local, pair: LowRank) -> Any:
    """A forward hook that adds the pair's product in the columns of masks while this thread has set the gate."""

    def hook(_module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        masks_RQ1 = getattr(gate, "masks_RQ1", None)
        if masks_RQ1 is None:
            return None
        change = inputs[0] @ pair.a_SI.t() @ pair.b_OS.t() * pair.scale
        return torch.where(masks_RQ1, output + change, output)

    return hook


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

"""A lean forward pass of Qwen2 and Llama on the weights of a loaded `transformers` model.

Shapes: R rows, Q columns, T = R * Q, N of them that are computed, E hidden size, H all heads side by side (queries,
keys, values), D head size, V vocabulary, P positions. Columns of all rows lie side by side but in attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from mars.attention import attend, share_mask
from mars.columns import Columns
from mars.linear import Head, Linear
from mars.memory import Access
from mars.window import Window

# A model of up to so many weights is worth a second copy of them that is laid out for oneDNN.
_PACKED_WEIGHTS = 2**26
_CHANGING_ROPES = {"dynamic", "longrope"}  # whose rotations depend on the length of the text


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: torch.Tensor
    queries_keys_values: Linear
    attention_out: Linear
    feed_forward_norm: torch.Tensor
    gate_up: Linear
    down: Linear


def supports(model: PreTrainedModel) -> bool:
    """Whether `Network` computes what this model does: plain Qwen2 or Llama, unquantised, all of it on one device."""
    config = model.config
    if type(model) not in (Qwen2ForCausalLM, LlamaForCausalLM) or config.hidden_act != "silu":
        return False
    if set(getattr(config, "layer_types", None) or ()) - {"full_attention"}:
        return False
    rope = config.rope_parameters
    if rope.get("rope_type") in _CHANGING_ROPES or rope.get("partial_rotary_factor", 1.0) != 1.0:
        return False
    products = [module for module in model.modules() if hasattr(module, "in_features")]
    kinds = {(parameter.dtype, parameter.device) for parameter in model.parameters()}
    return {type(module) for module in products} == {nn.Linear} and len(kinds) == 1


class Network:
    """The model as few operations as its mathematics needs.

    Query, key and value weights become one tensor, gate and up weights another; the parameters of `model` are from then
    on views of them, so that they are held once and the model still works.
    """

    lean = True

    def __init__(self, model: PreTrainedModel, mask_token_id: int | None = None):
        config, backbone = model.config, model.base_model
        self.layers: int = config.num_hidden_layers
        self.heads: int = config.num_attention_heads
        self.key_value_heads: int = config.num_key_value_heads
        self.head_size: int = backbone.layers[0].self_attn.head_dim
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self._vocabulary: int = config.vocab_size
        self._mask_token_id = mask_token_id
        self._epsilon: float = config.rms_norm_eps
        self._rotary = backbone.rotary_emb
        self._turns = torch.zeros(0)
        self._shape = (config.hidden_size,)
        self._heads = [self.heads, 2 * self.key_value_heads]
        self._pack = sum(parameter.numel() for parameter in model.parameters()) <= _PACKED_WEIGHTS
        with torch.no_grad():
            self._embedding = backbone.embed_tokens.weight.detach()
            self._layers = [self._layer(layer) for layer in backbone.layers]
            self._norm = backbone.norm.weight.detach()
            head = model.get_output_embeddings()
            self._head = Head(head.weight.detach(), head.bias, copy=self._pack)

    def turns(self, positions: int) -> torch.Tensor:
        """Cosines and signed sines [P, 2, 1, D] for at least so many positions, from the model's own rotary module."""
        if len(self._turns) < positions:
            numbers_1P = torch.arange(positions, device=self.device)[None]
            cosines, sines = self._rotary(torch.zeros((), dtype=self.dtype, device=self.device), numbers_1P)
            half = self.head_size // 2
            # rotate_half(x) * sin = roll(x) * signed sin, with the minus of the rotation moved into the table.
            signed = torch.cat((-sines[..., :half], sines[..., half:]), -1)
            self._turns = torch.stack((cosines[0], signed[0]), 1)[:, :, None]
        return self._turns

    def read(self, window: Window, access: Access) -> torch.Tensor:
        """Float32 logits [R, keep, V] of the last columns, -inf for the mask token; 0 for columns not computed."""
        columns, keep = access.columns, window.keep
        hidden_NE = self._embedding.index_select(0, columns.pick(window.ids_RQ.flatten()))
        positions_N = columns.pick(window.positions.flatten())
        cosines_N1D, sines_N1D = access.turns.index_select(0, positions_N).unbind(1)
        groups = self.heads // self.key_value_heads
        mask = share_mask(access.mask, groups)
        for number, layer in enumerate(self._layers):
            normed_NE = torch.rms_norm(hidden_NE, self._shape, layer.attention_norm, self._epsilon)
            heads_NHD = layer.queries_keys_values(normed_NE).view(len(normed_NE), -1, self.head_size)
            _turn(heads_NHD.narrow(1, 0, self.heads + self.key_value_heads), cosines_N1D, sines_N1D)
            queries_NHD, keys_values_NHD = heads_NHD.split_with_sizes(self._heads, 1)
            access.write(number, keys_values_NHD)
            queries_RQHD = columns.spread(queries_NHD)
            if number == self.layers - 1 and keep < window.columns:
                # Behind the last keys and values only the columns matter whose predictions are wanted.
                if keep == 0:
                    break
                first = window.columns - keep
                queries_RQHD = queries_RQHD[:, first:]
                columns, hidden_NE = columns.last(keep, hidden_NE)
                mask = share_mask(None if access.mask is None else access.mask[:, :, first:], groups)
            found_TH = attend(queries_RQHD, *access.read(number), mask)
            layer.attention_out.add_to(hidden_NE, columns.pick(found_TH))
            self._feed_forward(layer, hidden_NE)
        return self._logits(hidden_NE, columns, keep)

    def _feed_forward(self, layer: _Layer, hidden_NE: torch.Tensor) -> None:
        normed_NE = torch.rms_norm(hidden_NE, self._shape, layer.feed_forward_norm, self._epsilon)
        gate_NF, up_NF = layer.gate_up(normed_NE).chunk(2, -1)
        layer.down.add_to(hidden_NE, functional.silu(gate_NF).mul_(up_NF))

    def _logits(self, hidden_NE: torch.Tensor, columns: Columns, keep: int) -> torch.Tensor:
        if keep == 0:
            return torch.empty(columns.rows, 0, self._vocabulary, device=self.device)
        normed_NE = torch.rms_norm(hidden_NE, self._shape, self._norm, self._epsilon)
        logits_RQV = columns.spread(self._head(normed_NE))
        if self._mask_token_id is not None:
            logits_RQV.select(2, self._mask_token_id).fill_(-torch.inf)
        return logits_RQV

    def _layer(self, layer: Any) -> _Layer:
        attention, feed_forward = layer.self_attn, layer.mlp
        return _Layer(
            attention_norm=layer.input_layernorm.weight.detach(),
            queries_keys_values=self._linear(attention.q_proj, attention.k_proj, attention.v_proj),
            attention_out=self._linear(attention.o_proj),
            feed_forward_norm=layer.post_attention_layernorm.weight.detach(),
            gate_up=self._linear(feed_forward.gate_proj, feed_forward.up_proj),
            down=self._linear(feed_forward.down_proj),
        )

    def _linear(self, *modules: nn.Linear) -> Linear:
        """One product for modules that read the same; their parameters become views of what it holds."""
        weight, bias = fuse(modules, "weight"), fuse(modules, "bias")
        if weight is None:
            raise ValueError("a linear layer must have weights")
        return Linear(weight, bias, pack=self._pack)


def fuse(modules: Sequence[nn.Module], name: str) -> torch.Tensor | None:
    """These modules' parameters of that name in one tensor, which they become views of; None if they have none."""
    parameters = [getattr(module, name) for module in modules]
    if parameters[0] is None:
        return None
    if len(parameters) == 1:
        return parameters[0].detach()
    whole = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, part in zip(parameters, whole.split([len(parameter) for parameter in parameters]), strict=True):
        parameter.data = part
    return whole


def _turn(heads_NHD: torch.Tensor, cosines_N1D: torch.Tensor, sines_N1D: torch.Tensor) -> None:
    """Rotary position embedding, in place; the sines carry the sign (`Network.turns`)."""
    rolled_NHD = heads_NHD.roll(heads_NHD.shape[2] // 2, -1)
    heads_NHD.mul_(cosines_N1D).addcmul_(rolled_NHD, sines_N1D)

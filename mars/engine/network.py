"""A lean forward pass of Qwen2 and Llama on the weights of a loaded `transformers` model.

Shapes: R rows, Q columns, N of all that are computed, E hidden size, D head size, V vocabulary, P positions. Columns of
all rows lie side by side but in attention.
"""

from __future__ import annotations

import copy
import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from mars.engine import backends
from mars.engine.backend import Backend, Layer, Weights
from mars.engine.linear import PRODUCTS, Projection, linear_of
from mars.engine.memory import Access
from mars.engine.window import Window

# A model of up to so many weights is worth a second copy of them that is laid out for its products. A larger one is
# packed where the plain copy goes (`compact`).
_COPIED_WEIGHTS = 2**26
_laid_out: weakref.WeakKeyDictionary[PreTrainedModel, tuple[tuple[int, bool], Any]] = weakref.WeakKeyDictionary()
_laying_out = threading.RLock()
_CHANGING_ROPES = {"dynamic", "longrope"}  # whose rotations depend on the length of the text


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
    """The model as few operations as its mathematics needs, on a backend (mars/engine/backends.py).

    Query, key and value weights become one tensor, gate and up weights another; the parameters of `model` are from then
    on views of them, so that they are held once and the model still works. On a CPU hidden states, keys, values and
    scores are float32, of type `dtype`, also where weights are bfloat16.

    `steady` gives a column the same logits, bit for bit, whatever columns and rows share its pass, where the backends
    can (`backends.can_be_invariant`). `compact` packs all layers and sheds the plain weights.
    """

    lean = True

    @classmethod
    def on(
        cls, model: PreTrainedModel, mask_token_id: int | None = None, *, steady: bool = False, compact: bool = False
    ) -> Self:
        """A network of this model; all of them share one layout of its weights, as long as those are not changed.

        One that is to be steady shares with such ones only.
        """
        with _laying_out:
            known = _laid_out.get(model)
            if known is None or known[0] != (weights_version(model), steady):
                if known is not None:
                    known[1].restore()
                network = cls(model, steady=steady, compact=compact)
                known = _laid_out[model] = ((weights_version(model), steady), network)
            shared = copy.copy(known[1])
        shared._mask_token_id = mask_token_id
        return shared

    def __init__(
        self, model: PreTrainedModel, mask_token_id: int | None = None, *, steady: bool = False, compact: bool = False
    ):
        config, backbone = model.config, model.base_model
        self.layers: int = config.num_hidden_layers
        self.key_value_heads: int = config.num_key_value_heads
        self.head_size: int = backbone.layers[0].self_attn.head_dim
        self.device: torch.device = model.device
        on_cpu = self.device.type == "cpu"
        self.dtype: torch.dtype = torch.float32 if on_cpu and model.dtype == torch.bfloat16 else model.dtype
        self.steady = steady
        self._vocabulary: int = config.vocab_size
        self._mask_token_id = mask_token_id
        self._rotary = backbone.rotary_emb
        self._rotations = torch.zeros(0)
        self._owner = weakref.ref(model)
        self._held: list[tuple[Sequence[nn.Linear], Projection]] = []
        copied = sum(parameter.numel() for parameter in model.parameters()) <= _COPIED_WEIGHTS
        compact = compact and on_cpu
        backend = backends.choose(self.device, model.dtype, invariant=steady)
        with torch.no_grad():
            if compact:
                _close_file(model)
            self._embedding = backbone.embed_tokens.weight.detach()
            layers = [self._layer(layer, backend, pack=copied or compact, shed=compact) for layer in backbone.layers]
            weights = Weights(
                layers=layers,
                last_norm=backbone.norm.weight.detach(),
                heads=config.num_attention_heads,
                shared=self.key_value_heads,
                size=self.head_size,
                epsilon=config.rms_norm_eps,
            )
            self._backend = backend(weights)
            head = model.get_output_embeddings()
            self._head = backend.vocabulary(head.weight.detach(), head.bias, pack=copied or compact)
        if compact:
            _return_freed_memory()

    def rotations(self, positions: int) -> torch.Tensor:
        """Cosines and signed sines [P, 2, 1, D] for at least so many positions, from the model's own rotary module."""
        if len(self._rotations) < positions:
            numbers_1P = torch.arange(positions, device=self.device)[None]
            cosines, sines = self._rotary(torch.zeros((), dtype=self.dtype, device=self.device), numbers_1P)
            half = self.head_size // 2
            # rotate_half(x) * sin = roll(x) * signed sin, with the minus of the rotation moved into the table.
            signed = torch.cat((-sines[..., :half], sines[..., half:]), -1)
            self._rotations = torch.stack((cosines[0], signed[0]), 1)[:, :, None]
        return self._rotations

    def read(self, window: Window, access: Access) -> torch.Tensor:
        """Float32 logits [R, keep, V] of the last columns, -inf for the mask token; 0 for columns not computed."""
        hidden_NE = self._embedding.index_select(0, access.columns.pick(window.ids_RQ.flatten())).to(self.dtype)
        walked = self._backend.walk(hidden_NE, window, access)
        if walked is None:
            return torch.empty(window.rows, 0, self._vocabulary, device=self.device)
        normed_NE, columns = walked
        logits_RQV = columns.spread(self._head(normed_NE))
        if self._mask_token_id is not None:
            logits_RQV.select(2, self._mask_token_id).fill_(-torch.inf)
        return logits_RQV

    def _layer(self, layer: Any, backend: type[Backend], *, pack: bool, shed: bool) -> Layer:
        """The weights of a layer; parameters that are one product become views of it, or go where it is packed."""
        products = []
        for names in PRODUCTS:
            modules = [linear_of(layer, name) for name in names]
            weight, bias = fuse(modules, "weight"), fuse(modules, "bias")
            if weight is None:
                raise ValueError("a linear layer must have weights")
            linear = backend.linear(weight, bias, pack=pack)
            self._held.append((modules, linear))
            if shed and linear.packed:
                linear.shed()
                for module in modules:
                    module.weight.data = module.weight.data.new_empty(0)
            products.append(linear)
        norms = layer.input_layernorm.weight.detach(), layer.post_attention_layernorm.weight.detach()
        return Layer(*norms, products)

    def restore(self) -> None:
        """Give the modules of a compact network their weights back, unpacked."""
        model = self._owner()
        with _laying_out:
            known = _laid_out.get(model)
            same = known is not None and known[0][0] == weights_version(model)
            for modules, linear in self._held:
                if not modules[0].weight.numel():
                    parts = linear.plain_weight().split([module.out_features for module in modules])
                    for module, part in zip(modules, parts, strict=True):
                        module.weight.data = part
            if known is not None and same:  # though its weights have other places now
                (_, steady), network = known
                _laid_out[model] = (weights_version(model), steady), network


def _close_file(model: PreTrainedModel) -> None:
    """Copy the weights that are not going to be packed: what is left of a file that is mapped stays in memory."""
    packed = {id(module.weight) for module in model.base_model.layers.modules() if isinstance(module, nn.Linear)}
    for parameter in model.parameters():
        if id(parameter) not in packed:
            parameter.data = parameter.data.clone()


def _return_freed_memory() -> None:
    """Hand the memory of the shed weights back to the system: glibc keeps blocks of a few megabytes otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def weights_version(model: PreTrainedModel) -> int:
    """A number that changes when weights of the model are changed, other than through `.data`, or replaced."""
    return hash(tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters()))


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

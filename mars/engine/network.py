"""A lean forward pass of Qwen2 and Llama on the weights of a loaded `transformers` model.

Shapes: R rows, Q columns, T = R * Q, N of them that are computed, E hidden size, H all heads side by side (queries,
keys, values), D head size, V vocabulary, P positions. Columns of all rows lie side by side but in attention.
"""

from __future__ import annotations

import copy
import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from mars.engine.adapter import LINEARS, Adapter, linear_of
from mars.engine.attention import attend, attention, share_mask
from mars.engine.gated import PRODUCTS, Gate, Gated, adapted_product, add_product, product_and_masks
from mars.engine.linear import Head, projection
from mars.engine.memory import Access
from mars.engine.projection import Projection
from mars.engine.window import Columns, Window

if TYPE_CHECKING:
    from mars.engine.compiled import Compiled, Seen
    from mars.engine.fused import Fused
    from mars.engine.triton_kernels import Kernels

# A model of up to so many weights is worth a second copy of them that is laid out for its products, and a float32 copy
# of its vocabulary. A larger one is packed in bfloat16, or where the plain copy goes (`compact`).
_COPIED_WEIGHTS = 2**26
_laid_out: weakref.WeakKeyDictionary[PreTrainedModel, tuple[tuple[int, bool], Any]] = weakref.WeakKeyDictionary()
_laying_out = threading.RLock()
_CHANGING_ROPES = {"dynamic", "longrope"}  # whose rotations depend on the length of the text


class Norm:
    """RMS norm of hidden states [N, E], in the dtype of its weights [E].

    Where that is a narrower one, a few operations take half the time of PyTorch's own. `wide_E` are the weights in the
    dtype of the hidden states.
    """

    def __init__(self, weight_E: torch.Tensor, epsilon: float, wide: torch.dtype):
        self.weight_E, self._epsilon = weight_E, epsilon
        self.wide_E = weight_E.to(wide)
        # x / sqrt(|x|² / E + ε) = x · √E / hypot(|x|, √(E ε))
        self._scaled_E = self.wide_E * len(weight_E) ** 0.5
        self._least = torch.tensor((len(weight_E) * epsilon) ** 0.5, dtype=wide, device=weight_E.device)

    def __call__(self, hidden_NE: torch.Tensor) -> torch.Tensor:
        """The normed states [N, E]."""
        if self.wide_E.dtype == self.weight_E.dtype:
            return torch.rms_norm(hidden_NE, self.weight_E.shape, self.weight_E, self._epsilon)
        lengths_N1 = torch.linalg.vector_norm(hidden_NE, 2, -1, True).hypot_(self._least)
        return torch.div(hidden_NE, lengths_N1).mul_(self._scaled_E).to(self.weight_E.dtype)


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Norm
    queries_keys_values: Projection
    attention_out: Projection
    feed_forward_norm: Norm
    gate_up: Projection
    down: Projection


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
    on views of them, so that they are held once and the model still works. With an adapter (`adapted`) the columns of
    masks get what it adds; the others get the base's own values, bit for bit. On a CPU bfloat16 is the type of weights
    and of what is multiplied with them; hidden states, keys, values and scores are float32 there, of type `dtype`. On a
    GPU that Triton compiles for, its kernels run (mars/engine/triton_kernels.py).

    `steady` gives a column the same logits, bit for bit, whatever columns and rows share its pass: on a CPU only, where
    products are by our own kernels, or were compared (`steady_rows`) with the number of threads that torch has now, and
    all else is compiled (mars/engine/compiled.py; fused.py where all weights are in tiles). `compact` packs all layers
    and sheds the plain weights.
    """

    lean = True

    @classmethod
    def on(
        cls,
        model: PreTrainedModel,
        mask_token_id: int | None = None,
        *,
        steady: bool = False,
        compact: bool = False,
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
        self,
        model: PreTrainedModel,
        mask_token_id: int | None = None,
        *,
        steady: bool = False,
        compact: bool = False,
    ):
        config, backbone = model.config, model.base_model
        self.layers: int = config.num_hidden_layers
        self.heads: int = config.num_attention_heads
        self.key_value_heads: int = config.num_key_value_heads
        self.head_size: int = backbone.layers[0].self_attn.head_dim
        self.device: torch.device = model.device
        on_cpu = self.device.type == "cpu"
        self.dtype: torch.dtype = torch.float32 if on_cpu and model.dtype == torch.bfloat16 else model.dtype
        self.steady = steady and on_cpu
        self._vocabulary: int = config.vocab_size
        self._mask_token_id = mask_token_id
        self._epsilon: float = config.rms_norm_eps
        self._rotary = backbone.rotary_emb
        self._rotations = torch.zeros(0)
        self._gated: Gated | None = None
        self._keeps_states = False
        self._heads = [self.heads, 2 * self.key_value_heads]
        shape = self.heads, self.key_value_heads, self.head_size
        self._kernels = kernels_on(self.device, model.dtype, shape, self._epsilon)
        self._compiled: Compiled | None = None
        if self.steady:
            from mars.engine.compiled import Compiled  # numba takes half a second to import

            self._compiled = Compiled(*shape, model.dtype, self._epsilon)
        copied = sum(parameter.numel() for parameter in model.parameters()) <= _COPIED_WEIGHTS
        self._compact = compact and on_cpu
        self._pack = copied or self.steady or self._compact or (on_cpu and model.dtype == torch.bfloat16)
        self._owner = weakref.ref(model)
        self._held: list[tuple[Sequence[nn.Linear], Projection]] = []
        self._fused: Fused | None = None
        with torch.no_grad():
            if self._compact:
                _close_file(model)
            self._embedding = backbone.embed_tokens.weight.detach()
            self._layers = [self._layer(layer) for layer in backbone.layers]
            if self._compiled is not None:
                self._fused = self._fuse()
            self._outputs = {name: linear_of(backbone.layers[0], name).out_features for name in LINEARS}
            self._norm = self._normed_by(backbone.norm)
            head = model.get_output_embeddings()
            self._head = Head(head.weight.detach(), head.bias, copy=copied, pack=self._pack, steady=self.steady)
        if self._compact:
            _return_freed_memory()

    def adapted(self, adapter: Adapter) -> Network:
        """This network with an adapter, on the same weights; it must fit (`Adapter.check`).

        It predicts every token, for no token of the vocabulary is a mask.
        """
        other = copy.copy(self)
        other._mask_token_id = None
        outputs = [[self._outputs[name] for name in names] for names in PRODUCTS]
        moved = adapter.to(self.device, self._embedding.dtype)
        products = [
            (layer.queries_keys_values, layer.attention_out, layer.gate_up, layer.down) for layer in self._layers
        ]
        other._gated = Gated(
            moved,
            self.layers,
            outputs,
            self.dtype,
            self._vocabulary,
            compiled=self.steady,
            fused=self._fused is not None,
            beside=products if self._kernels is not None else (),
        )
        if self._fused is not None:
            other._fused = self._fused.adapted(moved, outputs)
        other._keeps_states = adapter.head is not None
        return other

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
        columns, keep = access.columns, window.keep
        hidden_NE, gate = self._embed(window, access)
        if self._compiled is not None:
            return self._read_compiled(self._compiled, hidden_NE, gate, window, access)
        if self._kernels is not None:
            with torch.cuda.device_of(hidden_NE):
                return self._read_launched(self._kernels, hidden_NE, gate, window, access)
        positions_N = columns.pick(window.positions.flatten())
        cosines_N1D, sines_N1D = access.rotations.index_select(0, positions_N).unbind(1)
        groups = self.heads // self.key_value_heads
        mask = share_mask(access.mask, groups)
        for number, layer in enumerate(self._layers):
            normed_NE = layer.attention_norm(hidden_NE)
            heads_NO = adapted_product(gate, number, 0, layer.queries_keys_values, normed_NE, self.dtype)
            heads_NHD = heads_NO.view(len(normed_NE), -1, self.head_size)
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
                gate = gate and gate.last(columns, keep)
                columns, hidden_NE = columns.last(keep, hidden_NE)
                mask = share_mask(None if access.mask is None else access.mask[:, :, first:], groups)
            found_TH = attend(queries_RQHD, *access.read(number), mask)
            found_NH = columns.pick(found_TH).to(self._embedding.dtype)
            add_product(gate, number, 1, layer.attention_out, hidden_NE, found_NH)
            gate_NF, up_NF = adapted_product(gate, number, 2, layer.gate_up, layer.feed_forward_norm(hidden_NE)).chunk(
                2, -1
            )
            add_product(gate, number, 3, layer.down, hidden_NE, functional.silu(gate_NF).mul_(up_NF))
        return self._logits(self._norm(hidden_NE), columns, keep, access, gate)

    def _read_launched(
        self, kernels: Kernels, hidden_NE: torch.Tensor, gate: Gate | None, window: Window, access: Access
    ) -> torch.Tensor:
        """The same by Triton's kernels."""
        columns, keep, first = access.columns, window.keep, 0
        positions_N = columns.pick(window.positions.flatten())
        groups = self.heads // self.key_value_heads
        mask = share_mask(access.mask, groups)
        found_NO: torch.Tensor | None = None
        masks_N: torch.Tensor | None = None
        for number, layer in enumerate(self._layers):
            weight_E = layer.attention_norm.weight_E
            if found_NO is None:
                normed_NE = kernels.norm(hidden_NE, weight_E)
            else:
                hidden_NE, normed_NE = kernels.add_norm(hidden_NE, found_NO, masks_N, weight_E)
            heads_NO, masks_N = product_and_masks(gate, number, 0, layer.queries_keys_values, normed_NE)
            if number == self.layers - 1 and keep < window.columns:
                first = window.columns - keep
            queries_RHQD = kernels.place(heads_NO, masks_N, positions_N, access, number, first)
            if first:
                if keep == 0:
                    return self._logits(hidden_NE, columns, keep, access, gate)
                gate = gate and gate.last(columns, keep)
                columns, hidden_NE = columns.last(keep, hidden_NE)
                mask = share_mask(None if access.mask is None else access.mask[:, :, first:], groups)
            found_RHQD = attention(queries_RHQD, *access.read(number), mask)
            found_NH = kernels.unfold(found_RHQD, columns, self._embedding.dtype)
            found_NO, masks_N = product_and_masks(gate, number, 1, layer.attention_out, found_NH, wide=True)
            hidden_NE, normed_NE = kernels.add_norm(hidden_NE, found_NO, masks_N, layer.feed_forward_norm.weight_E)
            inner_NF = kernels.silu(*product_and_masks(gate, number, 2, layer.gate_up, normed_NE))
            found_NO, masks_N = product_and_masks(gate, number, 3, layer.down, inner_NF, wide=True)
        if found_NO is None:
            normed_NE = kernels.norm(hidden_NE, self._norm.weight_E)
        else:
            _, normed_NE = kernels.add_norm(hidden_NE, found_NO, masks_N, self._norm.weight_E)
        return self._logits(normed_NE, columns, keep, access, gate)

    def _read_compiled(
        self, compiled: Compiled, hidden_NE: torch.Tensor, gate: Gate | None, window: Window, access: Access
    ) -> torch.Tensor:
        """The same by compiled steps; what ends a residual branch is added before the next norm."""
        columns, keep = access.columns, window.keep
        seen, added_NE = compiled.seen(window, access), None
        if self._fused is not None:
            return self._read_fused(self._fused, compiled, hidden_NE, gate, seen, window, access)
        for number, layer in enumerate(self._layers):
            normed_NE = compiled.norm(hidden_NE, added_NE, layer.attention_norm.wide_E)
            heads_NO = adapted_product(gate, number, 0, layer.queries_keys_values, normed_NE)
            queries_NO = compiled.place(heads_NO, seen, number)
            if number == self.layers - 1 and keep < window.columns:
                if keep == 0:
                    break
                gate = gate and gate.last(columns, keep)
                columns, hidden_NE, queries_NO, seen = _last(keep, columns, hidden_NE, queries_NO, seen)
            found_NO = compiled.attend(queries_NO, seen, number)
            added_NE = adapted_product(gate, number, 1, layer.attention_out, found_NO)
            normed_NE = compiled.norm(hidden_NE, added_NE, layer.feed_forward_norm.wide_E)
            inner_NF = compiled.silu(adapted_product(gate, number, 2, layer.gate_up, normed_NE))
            added_NE = adapted_product(gate, number, 3, layer.down, inner_NF)
        return self._logits(compiled.norm(hidden_NE, added_NE, self._norm.wide_E), columns, keep, access, gate)

    def _read_fused(
        self,
        fused: Fused,
        compiled: Compiled,
        hidden_NE: torch.Tensor,
        gate: Gate | None,
        seen: Seen,
        window: Window,
        access: Access,
    ) -> torch.Tensor:
        """The same, all layers in one call."""
        columns, keep = access.columns, window.keep
        queries_NO = fused.first(hidden_NE, None if gate is None else gate.masks_N, seen)
        if keep < window.columns:
            if keep == 0:
                return self._logits(hidden_NE, columns, keep, access, gate)
            gate = gate and gate.last(columns, keep)
            columns, hidden_NE, queries_NO, seen = _last(keep, columns, hidden_NE, queries_NO, seen)
        added_NE = fused.rest(hidden_NE, queries_NO, None if gate is None else gate.masks_N, seen)
        return self._logits(compiled.norm(hidden_NE, added_NE, self._norm.wide_E), columns, keep, access, gate)

    def _embed(self, window: Window, access: Access) -> tuple[torch.Tensor, Gate | None]:
        """The hidden states [N, E] that a pass begins with, and its masks, if there are any."""
        if self._gated is None:
            hidden_NE = self._embedding.index_select(0, access.columns.pick(window.ids_RQ.flatten()))
            return hidden_NE.to(self.dtype), None
        hidden_NE, gate = self._gated.open(window, access.columns, self._embedding, static=access.static)
        return hidden_NE.to(self.dtype), gate

    def _logits(
        self, normed_NE: torch.Tensor, columns: Columns, keep: int, access: Access, gate: Gate | None
    ) -> torch.Tensor:
        if keep == 0:
            return torch.empty(columns.rows, 0, self._vocabulary, device=self.device)
        # A conditional head takes the logits of a mask's candidates anew, in float32.
        refined = gate.others if gate is not None and self._keeps_states and self._head.refines else None
        logits_RQV = columns.spread(self._head(normed_NE, refined))
        if self._keeps_states:
            access.states.append(columns.spread(normed_NE))
        if self._mask_token_id is not None:
            logits_RQV.select(2, self._mask_token_id).fill_(-torch.inf)
        return logits_RQV

    def _layer(self, layer: Any) -> _Layer:
        attention, feed_forward = layer.self_attn, layer.mlp
        return _Layer(
            attention_norm=self._normed_by(layer.input_layernorm),
            queries_keys_values=self._linear(attention.q_proj, attention.k_proj, attention.v_proj),
            attention_out=self._linear(attention.o_proj),
            feed_forward_norm=self._normed_by(layer.post_attention_layernorm),
            gate_up=self._linear(feed_forward.gate_proj, feed_forward.up_proj),
            down=self._linear(feed_forward.down_proj),
        )

    def _fuse(self) -> Fused | None:
        """All layers in one call, where all weights are in tiles, and keys and values begin with one."""
        from mars.engine.fused import Fused
        from mars.engine.tile_layout import TILE
        from mars.engine.tiles import Tiled

        if self.key_value_heads * self.head_size % TILE:
            return None
        found = []
        for layer in self._layers:
            all_four = layer.queries_keys_values, layer.attention_out, layer.gate_up, layer.down
            products = [linear for linear in all_four if isinstance(linear, Tiled)]
            if len(products) < len(all_four):
                return None
            found.append(((layer.attention_norm.wide_E, layer.feed_forward_norm.wide_E), products))
        return Fused(found, self.heads, self.key_value_heads, self.head_size, self._epsilon)

    def _linear(self, *modules: nn.Linear) -> Projection:
        """One product for modules that read the same; their parameters become views of what it holds."""
        weight, bias = fuse(modules, "weight"), fuse(modules, "bias")
        if weight is None:
            raise ValueError("a linear layer must have weights")
        linear = projection(weight, bias, pack=self._pack, steady=self.steady)
        self._held.append((modules, linear))
        if self._compact and linear.packed:
            linear.shed()
            for module in modules:
                module.weight.data = module.weight.data.new_empty(0)
        return linear

    def _normed_by(self, module: Any) -> Norm:
        return Norm(module.weight.detach(), self._epsilon, self.dtype)

    def restore(self) -> None:
        """Give the modules of a compact network their weights back, unpacked."""
        model = self._owner()
        with _laying_out:
            for modules, linear in self._held:
                if not modules[0].weight.numel():
                    parts = linear.plain_weight().split([module.out_features for module in modules])
                    for module, part in zip(modules, parts, strict=True):
                        module.weight.data = part
            if model in _laid_out:  # whose layout is still the same
                (_, steady), network = _laid_out[model]
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
    """A number that changes when weights of the model are changed or replaced."""
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


def kernels_on(device: torch.device, dtype: torch.dtype, shape: tuple[int, int, int], epsilon: float) -> Kernels | None:
    """Triton's kernels for heads of this shape; None where the device is no GPU, or they do not run there."""
    if device.type != "cuda":
        return None
    try:
        from mars.engine import triton_kernels
    except ImportError:  # none, or a build that does not fit this system
        return None
    return triton_kernels.Kernels(*shape, epsilon) if triton_kernels.usable(device, dtype) else None


def _last(
    keep: int, columns: Columns, hidden_NE: torch.Tensor, queries_NO: torch.Tensor, seen: Seen
) -> tuple[Columns, torch.Tensor, torch.Tensor, Seen]:
    """The entries of the last `keep` columns of each row, out of all that `columns` says are computed."""
    columns, chosen_M1 = columns.last(keep, torch.arange(len(hidden_NE))[:, None])
    chosen_M = chosen_M1[:, 0]
    return columns, hidden_NE[chosen_M], queries_NO[chosen_M], seen.at(chosen_M)


def _turn(heads_NHD: torch.Tensor, cosines_N1D: torch.Tensor, sines_N1D: torch.Tensor) -> None:
    """Rotary position embedding, in place; the sines carry the sign (`Network.rotations`)."""
    rolled_NHD = heads_NHD.roll(heads_NHD.shape[2] // 2, -1)
    heads_NHD.mul_(cosines_N1D).addcmul_(rolled_NHD, sines_N1D)

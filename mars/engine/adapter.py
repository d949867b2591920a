"""A gated MARS adapter: low-rank weights that act only where a pass reads masks, and the embeddings of the masks.

mars/checkpoint/adapter.py reads it from its folder.

Shapes: K masks of a group, E hidden size, I and O input and output features of a linear layer, S rank, F hidden size of
the conditional head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

# The linear layers that may have a pair, and the part of a decoder layer that they belong to.
LINEARS = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj"), "self_attn"),
    **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), "mlp"),
}
DEFAULT_CANDIDATES = 32


@dataclass(frozen=True, slots=True)
class LowRank:
    """The addition to a linear layer's output in the columns of masks: `scale` · B (A x), A [S, I], B [O, S]."""

    a_SI: torch.Tensor
    b_OS: torch.Tensor
    scale: float


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Those of the conditional head (mars/engine/conditional.py), `up` [F, 2E] and `down` [E, F]."""

    up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One adapter. `layers` maps, layer by layer, the names of `LINEARS` to their pairs; layers without any are empty.

    Mask k of a group, from 0, has embedding k of `mask_embeddings` [K, E], those past the last have the last one.
    `head` is the conditional head, None if there is none; `record` is the training record.
    """

    name: str
    layers: tuple[Mapping[str, LowRank], ...]
    mask_embeddings: torch.Tensor
    head: HeadWeights | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gated(self) -> bool:
        """Whether it acts at masks only; a merged one is to be added to the weights of its base."""
        return self.record.get("mode", "gated") == "gated"

    @property
    def fills_masks(self) -> bool:
        """Whether it was trained with masks; one without is a merged one of plain SFT."""
        return len(self.mask_embeddings) > 0

    @property
    def block_size(self) -> int:
        """The block size that it was trained for: its masks, and the real token before them."""
        return int(self.record.get("block_size") or len(self.mask_embeddings) + 1)

    @property
    def candidates(self) -> int:
        """The number of a mask's most probable tokens that the conditional head re-ranks."""
        settings = self.record.get("settings")
        candidates = settings.get("candidates") if isinstance(settings, dict) else None
        return int(DEFAULT_CANDIDATES if candidates is None else candidates)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Adapter:
        """The same adapter with all of its weights there, in `dtype`."""

        def moved(weight: torch.Tensor) -> torch.Tensor:
            return weight.to(device=device, dtype=dtype)

        layers = tuple(
            {name: LowRank(moved(pair.a_SI), moved(pair.b_OS), pair.scale) for name, pair in layer.items()}
            for layer in self.layers
        )
        head = None if self.head is None else HeadWeights(moved(self.head.up), moved(self.head.down))
        return replace(self, layers=layers, mask_embeddings=moved(self.mask_embeddings), head=head)

    def _weights(self) -> Iterator[torch.Tensor]:
        yield self.mask_embeddings
        for layer in self.layers:
            for pair in layer.values():
                yield from (pair.a_SI, pair.b_OS, torch.tensor(pair.scale))
        if self.head is not None:
            yield from (self.head.up, self.head.down)

    def check(self, model: PreTrainedModel) -> None:
        """Raise ValueError, one sentence, unless it is gated, finite, and its shapes fit those of `model`.

        An infinite weight would change real tokens too, which get 0 times what masks get.
        """
        if not self.gated:
            raise ValueError(f"the adapter {self.name} is a merged one: add it to the base's weights, then load those")
        if not all(bool(weight.isfinite().all()) for weight in self._weights()):
            raise ValueError(f"the adapter {self.name} has weights that are infinite or NaN: train it anew")
        if (misfit := next(self._misfits(model.config, model.base_model.layers), None)) is not None:
            raise ValueError(f"the adapter {self.name} {misfit}: take the base that it was trained on")

    def _misfits(self, config: PreTrainedConfig, layers: Sequence[Any]) -> Iterator[str]:
        """The parts that do not fit a base of this configuration with these layers, in words."""
        size = config.hidden_size
        if self.mask_embeddings.shape[1] != size:
            yield f"has mask embeddings of size {self.mask_embeddings.shape[1]}, but the base's hidden size is {size}"
        if self.head is not None and self.head.up.shape[1] != 2 * size:
            read = self.head.up.shape[1]
            yield f"has a head that reads {read} numbers, but twice the base's hidden size is {2 * size}"
        if len(self.layers) > len(layers):
            yield f"has weights for layer {len(self.layers) - 1}, but the base has {len(layers)} layers"
        for number, pairs in enumerate(self.layers):
            for name, pair in pairs.items():
                found = [len(pair.b_OS), pair.a_SI.shape[1]]
                linear = linear_of(layers[number], name)  # whose weight may be packed away
                wanted = [linear.out_features, linear.in_features]
                if found != wanted:
                    yield f"changes {name} of layer {number} as {found}, but the base's is {wanted}"


def linear_of(layer: Any, name: str) -> Any:
    """The linear layer of that name in a decoder layer of `transformers`."""
    return getattr(getattr(layer, LINEARS[name]), name)

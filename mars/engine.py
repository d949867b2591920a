"""What decoders drive: rows of tokens that a model reads on, one forward pass at a time.

A decoder opens `Rows`, then says in each pass, by a `Window`, which token goes to which slot and who sees whom. A slot
may be written again: that is how masks give way to the accepted tokens, and how a row is rewound without a copy.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import torch
from transformers import PreTrainedModel

from mars.cache import CachedRows, RecomputedRows
from mars.graphs import Runners
from mars.memory import Model
from mars.network import Network, supports
from mars.transformer import Transformer
from mars.window import Window

if TYPE_CHECKING:
    from mars.config import DecodingSettings
    from mars.control import Control
    from mars.stream import Stream


class Clock:
    """Seconds spent in the `with` block, with the device's queue empty at both ends; read `seconds` afterwards."""

    def __init__(self, now: Callable[[], float] = time.perf_counter, synchronize: Callable[[], None] | None = None):
        self.seconds = 0.0
        self._now = now
        self._synchronize = synchronize
        self._start = 0.0

    def __enter__(self) -> Self:
        if self._synchronize is not None:
            self._synchronize()
        self._start = self._now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._synchronize is not None:
            self._synchronize()
        self.seconds = self._now() - self._start


class Rows(Protocol):
    """The cached sequences of one decoding run, one beside the other."""

    def forward(self, window: Window) -> torch.Tensor:
        """Write and read one window; one call of the model.

        The window's rows are the cached rows `window.first` and following; the others are left as they are.

        Returns:
            Float32 logits [R, keep, V] on the device; the mask token's are -inf, so it is never proposed. The next call
            may overwrite them.

        Raises:
            ValueError: the window reaches beyond the capacity or the rows.
        """

    def move(self, source: int, target: int) -> None:
        """Put what row `source` has cached into row `target`: how the last row takes the place of one that leaves."""


class Engine(Protocol):
    """A model as decoders see it; `mask_token_id` is None unless it was trained to fill masks behind a causal prefix.

    `diffusion_mask_id` is the mask token of a model trained by block diffusion, which is no causal one, else None.
    `static_shapes` asks decoders to give every pass the same number of columns, as CUDA graphs need it.
    """

    mask_token_id: int | None
    diffusion_mask_id: int | None
    static_shapes: bool
    stop_token_ids: frozenset[int]
    context_length: int
    vocab_size: int
    device: torch.device

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> Rows:
        """Rows of up to `capacity` tokens; without cache every pass recomputes the whole prefix (the slow twin)."""

    def clock(self) -> Clock:
        """A clock for one pass, synchronised with the device."""


class ModelEngine:
    """An engine on a causal `transformers` model with full attention.

    Qwen2 and Llama run on `Network`, which makes the model's parameters views of its own; others on their modules.
    `graphs` asks for passes of static shapes, which CUDA graphs replay; None means on a GPU, where `Network` runs.
    `model` is the model itself, on the same weights.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stop_token_ids: frozenset[int],
        mask_token_id: int | None = None,
        diffusion_mask_id: int | None = None,
        graphs: bool | None = None,
    ):
        self.model = model
        self.mask_token_id = mask_token_id
        self.diffusion_mask_id = diffusion_mask_id
        self.stop_token_ids = stop_token_ids
        self.context_length: int = model.config.max_position_embeddings
        self.vocab_size: int = model.config.vocab_size
        self.device: torch.device = model.device
        never = mask_token_id if diffusion_mask_id is None else diffusion_mask_id
        self._transformer = Transformer(model.eval(), never)
        self._model: Model = Network(model, never) if supports(model) else self._transformer
        on_gpu = self.device.type == "cuda"
        self.static_shapes = on_gpu and isinstance(self._model, Network) if graphs is None else graphs
        self._runners = Runners(self._model, capture=on_gpu)

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> Rows:
        """Rows of up to `capacity` tokens; without cache every pass recomputes the whole prefix (the slow twin)."""
        if not use_cache:
            return RecomputedRows(self._transformer, rows, capacity)
        # Memory that the system has just handed out is slow to write at first: rows take over that of earlier ones.
        runner = self._runners.take(rows, capacity + 1)
        opened = CachedRows(runner.memory, rows, capacity, runner.forward if self.static_shapes else None)
        weakref.finalize(opened, self._runners.give_back, runner)
        return opened

    def clock(self) -> Clock:
        """A clock for one pass, synchronised with the device."""
        return Clock(synchronize=torch.cuda.synchronize if self.device.type == "cuda" else None)

    def submit(
        self,
        prompt: Sequence[int],
        settings: DecodingSettings,
        *,
        decoder: str = "sliding_window",
        control: Control | None = None,
    ) -> Stream:
        """Decode `prompt` (token ids) in passes that it shares with the engine's other streams (mars/service.py).

        Raises:
            ValueError: one sentence: the decoder is unknown or cannot share passes, or the prompt is empty or does not
                fit.
        """
        from mars.service import service_of  # which imports this module

        return service_of(self).submit(decoder, prompt, settings, control)

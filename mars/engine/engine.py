"""The engine of the decoders: rows of tokens that a model continues, one forward pass at a time.

A decoder opens `Rows`, then says in each pass, by a `Window`, which token goes to which slot and who sees whom. A slot
may be written again: that is how masks give way to the accepted tokens, and how a row is rewound without a copy.

Shapes: R rows, Q columns, S slots, E hidden size, V vocabulary.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, Self, TypeVar

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mars.engine.backends import can_be_invariant, runner_of
from mars.engine.memory import Memories, Memory, Model
from mars.engine.network import Network, supports
from mars.engine.transformer import Transformer
from mars.engine.window import Window

T = TypeVar("T")


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

    def __exit__(self, *_: object) -> None:
        if self._synchronize is not None:
            self._synchronize()
        self.seconds = self._now() - self._start


class Rows(Protocol):
    """The cached sequences of one decoding run, one beside the other."""

    @property
    def warming(self) -> bool:
        """Whether the last call took longer than later ones of its shape will: its CUDA graph is yet to be captured."""

    def forward(self, window: Window) -> torch.Tensor:
        """Write and read one window; one call of the model.

        The window's rows are the cached rows `window.first` and following; the others are left as they are.

        Returns:
            Float32 logits [R, keep, V] on the device; the mask token's are -inf, so it is never proposed. The caller
            may change them, the next call may overwrite them.

        ValueError where the window reaches beyond the capacity or the rows.
        """

    def move(self, source: int, target: int) -> None:
        """Put what row `source` has cached into row `target`: how the last row takes the place of one that leaves."""

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Put the first `tokens` that row `source` has cached into row `target` as well, which begins with them."""


class Engine(Protocol):
    """A model as decoders see it; `mask_token_id` is None unless it was trained to fill masks behind a causal prefix.

    `template_ids` are the tokens by which a chat is laid out and which no answer holds: special, and no stop token.
    `calibration` [2, M] has the slope and offset of each mask for the score `calibrated` (mars/acceptance.py), float64,
    None if they were not fitted.
    `static_shapes` asks decoders to give every pass the same number of columns, as CUDA graphs need it.
    """

    mask_token_id: int | None
    static_shapes: bool
    stop_token_ids: frozenset[int]
    template_ids: frozenset[int]
    calibration: torch.Tensor | None
    context_length: int
    vocab_size: int
    device: torch.device

    def open(self, rows: int, capacity: int) -> Rows:
        """Rows of up to `capacity` tokens."""

    def clock(self) -> Clock:
        """A clock for one pass, synchronised with the device."""


class EngineWrapper:
    """An engine that stands before another: the attributes and the clock are those of that one."""

    def __init__(self, engine: Engine):
        self._inner = engine
        self.mask_token_id = engine.mask_token_id
        self.static_shapes = engine.static_shapes
        self.stop_token_ids = engine.stop_token_ids
        self.template_ids = engine.template_ids
        self.calibration = engine.calibration
        self.context_length = engine.context_length
        self.vocab_size = engine.vocab_size
        self.device = engine.device

    def clock(self) -> Clock:
        return self._inner.clock()


class ModelEngine:
    """An engine on a causal `transformers` model with full attention.

    Qwen2 and Llama run on `Network`, which makes the model's parameters views of its own; others on their modules.
    Engines on one model hold its weights once, in whatever layout (`Network.on`). `graphs` asks for passes of static
    shapes, which CUDA graphs replay (mars_kernels); None means on a GPU, where `Network` runs. `model` is the model
    itself, on the same weights. `calibration` has the slope and offset of each mask's score. `compact` keeps, on a CPU,
    only the packed weights of the layers; the modules get theirs back when `model` is asked for.

    `invariant` says that a token has the same logits, bit for bit, whatever other columns and rows share its pass, so
    that exact decoding writes what one token at a time would even where two tokens are nearly equally probable: in
    bfloat16 on a CPU that has kernels for it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stop_token_ids: frozenset[int],
        template_ids: frozenset[int] = frozenset(),
        mask_token_id: int | None = None,
        graphs: bool | None = None,
        compact: bool = False,
        calibration: Sequence[tuple[float, float]] = (),
    ):
        self._given = model
        self.mask_token_id = mask_token_id
        self.stop_token_ids = stop_token_ids
        self.template_ids = template_ids
        self.context_length: int = model.config.max_position_embeddings
        self.vocab_size: int = model.config.vocab_size
        self.device: torch.device = model.device
        supported = supports(model.eval())
        self.invariant = supported and can_be_invariant(model.device, model.dtype, model.config)
        layout = {"steady": self.invariant, "compact": compact}
        self._network = Network.on(model, mask_token_id, **layout) if supported else None
        self._model: Model = self._network or Transformer(model, mask_token_id)
        on_gpu = self.device.type == "cuda"
        wanted = on_gpu and isinstance(self._model, Network) if graphs is None else graphs
        self._runner_of = runner_of(capture=on_gpu) if wanted else None
        self.static_shapes = self._runner_of is not None
        self._memories = Memories(self._model, self._runner_of)
        self.calibration: torch.Tensor | None = None
        if calibration:
            self.calibration = torch.tensor(calibration, dtype=torch.float64, device=self.device).T

    @property
    def model(self) -> PreTrainedModel:
        """The model itself, on the same weights; those that a compact engine has shed come back."""
        if self._network is not None:
            self._network.restore()
        return self._given

    @property
    def config(self) -> PreTrainedConfig:
        """The configuration of the model."""
        return self._given.config

    def open(self, rows: int, capacity: int) -> Rows:
        memory, runner = self._memories.take(rows, capacity + 1)
        opened = CachedRows(memory, rows, capacity, runner)
        weakref.finalize(opened, self._memories.give_back, memory, runner)
        return opened

    def clock(self) -> Clock:
        return Clock(synchronize=torch.cuda.synchronize if self.device.type == "cuda" else None)


class CachedRows:
    """Rows whose keys and values stay on the device; nothing of them is copied but by `move`.

    With a `runner`, passes have static shapes, and CUDA graphs may stand in for them. The memory may be larger than
    what was asked for.
    """

    def __init__(self, memory: Memory, rows: int, capacity: int, runner: Any = None):
        self.runner = runner
        self._memory = memory
        self._rows = rows
        self._capacity = capacity
        self._extent = 0

    @property
    def warming(self) -> bool:
        return self._memory.warming

    @torch.inference_mode()
    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V] of the last columns."""
        if window.extent > self._capacity + 1:
            raise ValueError(f"slots must be <= the capacity of {self._capacity}, got {window.extent - 1}")
        if window.first + window.rows > self._rows:
            raise ValueError(f"rows must be < the {self._rows} opened, got row {window.first + window.rows - 1}")
        self._extent = max(self._extent, window.extent)
        return self._memory.forward(window) if self.runner is None else self.runner.forward(window)

    @torch.inference_mode()
    def run(self, key: Hashable, extent: int, body: Callable[[], T]) -> T:
        """`Runner.run` of a pass that writes no slot from `extent` on and reads its windows by `read`."""
        if self.runner is None:
            raise ValueError("only rows of static shapes have a runner")
        self._extent = max(self._extent, extent)
        self._memory.note(self._memory.rows, extent)
        result: T = self.runner.run(key, body)
        return result

    def read(self, window: Window) -> torch.Tensor:
        """As `forward`, inside a `run`: no value is looked at, and the window has one of the runner's shapes."""
        return self._memory.forward(window, static=True)

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        self._memory.move(source, target, self._extent)

    @torch.inference_mode()
    def copy(self, source: int, target: int, tokens: int) -> None:
        self._memory.move(source, target, tokens + 1)

"""The two kinds of `engine.Rows` on a model: with a KV cache, and its slow twin that recomputes the prefix each pass.

Shapes: R rows, Q columns, S slots, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from mars.engine.conditional import ConditionalHead, States
from mars.engine.memory import Memory
from mars.engine.transformer import Transformer
from mars.engine.window import Window


class CachedRows:
    """Rows whose keys and values stay on the device; nothing of them is copied but by `move`.

    `forward` on a memory is `run`, the memory's own unless CUDA graphs stand in for it. The memory may be larger than
    what was asked for. `states` is that of the last pass, None without a conditional head.
    """

    def __init__(
        self,
        memory: Memory,
        rows: int,
        capacity: int,
        run: Callable[[Window], torch.Tensor] | None = None,
        head: ConditionalHead | None = None,
    ):
        self.states: States | None = None
        self._head = head
        self._memory = memory
        self._run = run or memory.forward
        self._rows = rows
        self._capacity = capacity
        self._extent = 0

    @torch.inference_mode()
    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V] of the last columns; the contract is that of `engine.Rows`."""
        _check(window, self._rows, self._capacity)
        self._extent = max(self._extent, window.extent)
        logits_RWV = self._run(window)
        found = self._memory.states
        self.states = None if self._head is None or found is None else States(found[: window.rows], self._head)
        return logits_RWV

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Put what row `source` has cached into row `target`."""
        self._memory.move(source, target, self._extent)

    @torch.inference_mode()
    def copy(self, source: int, target: int, tokens: int) -> None:
        """Put the first tokens that row `source` has cached into row `target` as well."""
        self._memory.move(source, target, tokens + 1)


class RecomputedRows:
    """Rows of which only the tokens are kept: each pass runs the modules on everything up to the furthest slot."""

    def __init__(self, transformer: Transformer, rows: int, capacity: int, head: ConditionalHead | None = None):
        self.states: States | None = None
        self._head = head
        self._transformer = transformer
        self._capacity = capacity
        self._ids_RS = torch.zeros(rows, capacity + 1, dtype=torch.long, device=transformer.device)

    @torch.inference_mode()
    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V] of the last columns; the contract is that of `engine.Rows`.

        Slot 0 is forwarded with the rest, and sees itself only.
        """
        _check(window, len(self._ids_RS), self._capacity)
        ids_RS = self._ids_RS[window.first : window.first + window.rows]
        ids_RS.scatter_(1, window.slots_RQ, window.ids_RQ)
        numbers_S = torch.arange(window.extent, device=ids_RS.device)
        positions_RS = (numbers_S - 1).clamp_min(0).repeat(window.rows, 1)
        positions_RS.scatter_(1, window.slots_RQ, window.positions)
        causal_SS = (numbers_S <= numbers_S[:, None]) & ((numbers_S > 0) | (numbers_S[:, None] == 0))
        slots_RQS = window.slots_RQ[..., None].expand(-1, -1, window.extent)
        visible_RSS = causal_SS.repeat(window.rows, 1, 1).scatter_(1, slots_RQS, window.visible(numbers_S))
        ids_RS = ids_RS[:, : window.extent]
        hidden_RSE = self._transformer.hidden(ids_RS, positions_RS, visible_RSS[:, None], visible_RSS)
        wanted_RW1 = window.slots_RQ[:, window.columns - window.keep :, None]
        kept_RWE = hidden_RSE.gather(1, wanted_RW1.expand(-1, -1, hidden_RSE.shape[2]))
        self.states = None if self._head is None else States(kept_RWE, self._head)
        return self._transformer.logits(kept_RWE)

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Put the tokens of row `source` into row `target`."""
        self._ids_RS[target] = self._ids_RS[source]

    @torch.inference_mode()
    def copy(self, source: int, target: int, tokens: int) -> None:
        """Put the first tokens of row `source` into row `target` as well."""
        self._ids_RS[target, : tokens + 1] = self._ids_RS[source, : tokens + 1]


def _check(window: Window, rows: int, capacity: int) -> None:
    if window.extent > capacity + 1:
        raise ValueError(f"slots must be <= the capacity of {capacity}, got {window.extent - 1}")
    if window.first + window.rows > rows:
        raise ValueError(f"rows must be < the {rows} opened, got row {window.first + window.rows - 1}")

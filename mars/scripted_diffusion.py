"""A scripted model as one that block diffusion trained: it predicts each position where it is.

    engine = Diffusing(ScriptedModel([[5, 6, 7, 2]]), block_size=4)
    list(block_diffusion(engine, [[3, 4]], DecodingSettings(block_size=4)))

The script hears how many positions lie between the real text and the one that is predicted. What columns see is
checked: their own block and those before it, all of them written, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch

from mars.engine.engine import Clock
from mars.engine.window import Window
from mars.scripted import Call, ScriptedModel


class Diffusing:
    """An engine on a scripted model, for blocks of `block_size`. Calls and seconds are those of `model`."""

    mask_token_id: int | None = None

    def __init__(self, model: ScriptedModel, block_size: int):
        self.model = model
        self.block_size = block_size
        self.diffusion_mask_id = model.mask_token_id
        self.static_shapes = model.static_shapes
        self.stop_token_ids = model.stop_token_ids
        self.template_ids = model.template_ids
        self.context_length = model.context_length
        self.vocab_size = model.vocab_size
        self.device = model.device

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> DiffusingRows:
        """Rows of up to `capacity` tokens; a script knows no difference between cached and recomputed."""
        return DiffusingRows(self, rows, capacity)

    def clock(self) -> Clock:
        """A clock that only calls of this model move."""
        return self.model.clock()


class DiffusingRows:
    """The rows of one run, numbered by the places in which they begin; a prompt ends where the first mask stands."""

    states: None = None

    def __init__(self, engine: Diffusing, rows: int, capacity: int):
        self._engine = engine
        self._capacity = capacity
        self._numbers = list(range(rows))
        self._tokens: list[dict[int, int]] = [{} for _ in range(rows)]
        self._prompt_lengths: dict[int, int] = {}

    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V]; the contract is that of `engine.Rows`."""
        model, ids, slots = self._engine.model, window.ids_RQ.tolist(), window.slots_RQ.tolist()
        model.record(Call(ids, slots, window.keep))
        furthest = max(map(max, slots))
        if not furthest < window.extent <= self._capacity + 1:
            raise ValueError(f"extent must be > {furthest} and <= {self._capacity + 1}, got {window.extent}")
        visible = window.visible(torch.arange(window.extent)).tolist()
        logits = []
        for row in range(window.rows):
            columns = zip(slots[row], ids[row], visible[row], strict=True)
            real = [(slot, token, sees) for slot, token, sees in columns if slot]
            self._tokens[row].update((slot, token) for slot, token, _ in real)
            for slot, _, sees in real:
                self._check(row, slot, [number for number, seen in enumerate(sees) if seen])
            kept = slots[row][window.columns - window.keep :]
            logits.append([self._predict(row, slot) if slot else [math.nan] * model.vocab_size for slot in kept])
        return torch.tensor(logits).reshape(window.rows, window.keep, model.vocab_size)

    def move(self, source: int, target: int) -> None:
        """Put what row `source` has cached into row `target`."""
        self._numbers[target] = self._numbers[source]
        self._tokens[target], self._tokens[source] = self._tokens[source], {}

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Put the first tokens that row `source` has cached into row `target` as well."""
        self._numbers[target] = self._numbers[source]
        self._tokens[target] = {slot: token for slot, token in self._tokens[source].items() if slot <= tokens}

    def _check(self, row: int, slot: int, seen: Sequence[int]) -> None:
        size, number = self._engine.block_size, self._numbers[row]
        if list(seen) != list(range(1, ((slot - 1) // size + 1) * size + 1)):
            raise ValueError(f"row {number} sees the slots {list(seen)} from slot {slot}, with blocks of {size}")
        absent = [place for place in seen if place not in self._tokens[row]]
        if absent:
            raise ValueError(f"row {number} reads slot {absent[0]}, which was never written")

    def _predict(self, row: int, slot: int) -> list[float]:
        mask = cast(int, self._engine.diffusion_mask_id)
        number = self._numbers[row]
        text = [self._tokens[row][place] for place in sorted(self._tokens[row])]
        real = text.index(mask) if mask in text else len(text)
        start = self._prompt_lengths.setdefault(number, real)
        position = slot - 1
        masks = max(position - real, 0)
        tokens = (*text[: min(real, position)], *[mask] * masks)
        return self._engine.model.predict(number, max(position - start, 0), tokens, masks)

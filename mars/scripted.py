"""A model without weights: it proposes what a script says. The test double of every decoder, page and benchmark.

    model = ScriptedModel([[5, 6, 7, 2]])                      # each mask proposes the reply, with probability 1
    list(sliding_window(model, [[3, 4]], DecodingSettings()))

It is strict where a real model is patient: reading a slot that was never written, or a real token behind a mask, is
an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from mars.engine import Clock, TokenTable

Script = Callable[[int, int, int], tuple[int, float]]
"""(row, position in the response, masks read) -> (token id, its probability); no masks read: the real prefix."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model, as `Rows.forward` got it."""

    ids: list[list[int]]
    slots: list[list[int]]
    keep: int


@dataclass(slots=True, kw_only=True)
class _ScriptedRow:
    number: int
    tokens: dict[int, int] = field(default_factory=dict)
    prompt_length: int | None = None


class ScriptedModel:
    """An engine that proposes what `script` says: one reply per row (stop tokens after it), or a function.

    Every call takes `seconds_per_pass` on its own clock and is kept in `calls`.
    """

    def __init__(
        self,
        script: Script | Sequence[Sequence[int]],
        *,
        vocab_size: int = 32,
        mask_token_id: int | None = 31,
        stop_token_ids: frozenset[int] = frozenset({2}),
        context_length: int = 4096,
        seconds_per_pass: float = 0.001,
    ):
        self.vocab_size = vocab_size
        self.mask_token_id = mask_token_id
        self.stop_token_ids = stop_token_ids
        self.context_length = context_length
        self.device = torch.device("cpu")
        self.calls: list[Call] = []
        self._script = script if callable(script) else self._reciter(script)
        self._seconds_per_pass = seconds_per_pass
        self._seconds = 0.0

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
        """Rows of up to `capacity` tokens; a script knows no difference between cached and recomputed."""
        return ScriptedRows(self, rows, capacity)

    def clock(self) -> Clock:
        """A clock that only calls of this model move."""
        return Clock(now=lambda: self._seconds)

    def record(self, call: Call) -> None:
        """Count a call and let its time pass."""
        self.calls.append(call)
        self._seconds += self._seconds_per_pass

    def logits(self, row: int, position: int, masks_read: int) -> list[float]:
        """Logits [V] under which the scripted token has the scripted probability; -inf for the mask token."""
        token, probability = self._script(row, position, masks_read)
        if not 1 / self.vocab_size < probability <= 1:
            raise ValueError(f"a scripted probability must be > 1/{self.vocab_size} and <= 1, got {probability}")
        others = self.vocab_size - 1 - (self.mask_token_id is not None)
        rest = math.log((1 - probability) / others) if probability < 1 else -math.inf
        logits = [rest] * self.vocab_size
        logits[token] = math.log(probability)
        if self.mask_token_id is not None:
            logits[self.mask_token_id] = -math.inf
        return logits

    def _reciter(self, replies: Sequence[Sequence[int]]) -> Script:
        def recite(row: int, position: int, masks_read: int) -> tuple[int, float]:
            reply = replies[row]
            return reply[position] if position < len(reply) else min(self.stop_token_ids), 1.0

        return recite


class ScriptedRows:
    """The rows of one run of a `ScriptedModel`; the prompt ends where the first prediction is asked for."""

    def __init__(self, model: ScriptedModel, rows: int, capacity: int):
        self._model = model
        self._capacity = capacity
        self._rows = [_ScriptedRow(number=number) for number in range(rows)]

    def forward(self, ids: TokenTable, slots: TokenTable, keep: int) -> torch.Tensor:
        """Logits [R, keep, V]; the contract is that of `engine.Rows`."""
        self._model.record(Call([list(row) for row in ids], [list(row) for row in slots], keep))
        if not len(ids) == len(slots) == len(self._rows):
            raise ValueError(f"forward needs {len(self._rows)} rows, got {len(ids)} of ids and {len(slots)} of slots")
        logits = []
        for row, row_ids, row_slots in zip(self._rows, ids, slots, strict=True):
            row.tokens.update((slot, token) for slot, token in zip(row_slots, row_ids, strict=True) if slot)
            kept = row_slots[len(row_slots) - keep :]
            if row.prompt_length is None and kept:
                row.prompt_length = kept[0]
            logits.append([self._predict(row, slot) for slot in kept])
        return torch.tensor(logits).reshape(len(ids), keep, self._model.vocab_size)

    def keep(self, indices: Sequence[int]) -> None:
        """Go on with these of the current rows only."""
        self._rows = [self._rows[index] for index in indices]

    def _predict(self, row: _ScriptedRow, slot: int) -> list[float]:
        mask = self._model.mask_token_id
        if not 1 <= slot <= self._capacity:
            raise ValueError(f"row {row.number} asks at slot {slot}, outside of 1 to {self._capacity}")
        absent = [place for place in range(1, slot + 1) if place not in row.tokens]
        if absent:
            raise ValueError(f"row {row.number} reads slot {absent[0]}, which was never written")
        read = [row.tokens[place] == mask for place in range(1, slot + 1)]
        masks_read = read[::-1].index(False)
        if any(read[: slot - masks_read]):
            raise ValueError(f"row {row.number} reads a real token behind a mask at slot {read.index(True) + 1}")
        return self._model.logits(row.number, slot - (row.prompt_length or 0), masks_read)

"""A model without weights: it proposes what a script says. The test double of every decoder, page and benchmark.

    model = ScriptedModel([[5, 6, 7, 2]])                      # each mask proposes the reply, with probability 1
    list(sliding_window(model, [[3, 4]], DecodingSettings()))

It is strict where a real model is patient: reading a slot that was never written, or a real token behind a mask, is
an error, and the predictions of padding columns are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mars.control import Control
from mars.engine.engine import Clock
from mars.engine.window import Window
from mars.metrics import COUNTED
from mars.records import ForwardPass, RowPass

Script = Callable[[int, int, int], tuple[int, float]]
"""(row, position in the response, masks read) -> (token id, its probability); no masks read: the real prefix."""

Reader = Callable[[tuple[int, ...], int], tuple[int, float]]
"""(real tokens read, masks read behind them) -> (token id, its probability)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model, as `Rows.forward` got it."""

    ids: list[list[int]]
    slots: list[list[int]]
    keep: int


@dataclass(slots=True, kw_only=True)
class _ScriptedRow:
    """A cached row: slot -> (token, position). `predicted` is the position that predictions were last wanted from."""

    number: int | None = None
    tokens: dict[int, tuple[int, int]] = field(default_factory=dict)
    prompt_length: int | None = None
    predicted: int = -1


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
        template_ids: frozenset[int] = frozenset(),
        calibration: Sequence[tuple[float, float]] = (),
        context_length: int = 4096,
        seconds_per_pass: float = 0.001,
        static_shapes: bool = False,
    ):
        self.vocab_size = vocab_size
        self.mask_token_id = mask_token_id
        self.stop_token_ids = stop_token_ids
        self.template_ids = template_ids
        self.calibration = torch.tensor(calibration, dtype=torch.float64).T if calibration else None
        self.context_length = context_length
        self.device = torch.device("cpu")
        self.static_shapes = static_shapes
        self.calls: list[Call] = []
        self._script = script if callable(script) else self._reciter(script)
        self._seconds_per_pass = seconds_per_pass
        self._seconds = 0.0

    def open(self, rows: int, capacity: int) -> ScriptedRows:
        """Rows of up to `capacity` tokens."""
        return ScriptedRows(self, rows, capacity)

    def clock(self) -> Clock:
        """A clock that only calls of this model move."""
        return Clock(now=lambda: self._seconds)

    def record(self, call: Call) -> None:
        """Count a call and let its time pass."""
        self.calls.append(call)
        self._seconds += self._seconds_per_pass

    def called(self, window: Window, capacity: int) -> tuple[list[list[int]], list[list[int]], list[list[list[bool]]]]:
        """Record a call: its ids, its slots, and which slots each column sees.

        Raises:
            ValueError: the extent does not fit the slots, or rows of this capacity.
        """
        ids, slots = window.ids_RQ.tolist(), window.slots_RQ.tolist()
        self.record(Call(ids, slots, window.keep))
        furthest = max(map(max, slots))
        if not furthest < window.extent <= capacity + 1:
            raise ValueError(f"extent must be > {furthest} and <= {capacity + 1}, got {window.extent}")
        return ids, slots, visible(window, torch.arange(window.extent)).tolist()

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        """Logits [V] after `tokens`, which end in `masks_read` masks: those for `position` in the response of `row`."""
        return self.spread(*self._script(row, position, masks_read))

    def spread(self, token: int, probability: float) -> list[float]:
        """Logits [V] under which `token` has this probability; the others share the rest, but for the mask token."""
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


class StoppingModel(ScriptedModel):
    """A scripted model during whose call of this number, from 1, a run is stopped."""

    def __init__(self, script: Script | Sequence[Sequence[int]], control: Control, call: int = 1):
        super().__init__(script)
        self._control, self._last = control, call

    def record(self, call: Call) -> None:
        super().record(call)
        if len(self.calls) == self._last:
            self._control.stop()


def parts(records: Sequence[ForwardPass], row: int = 0) -> list[RowPass]:
    """The passes in which a row was offered something."""
    return [part for record in records if record.phase in COUNTED for part in record.rows if part.row == row]


class ReadingModel(ScriptedModel):
    """A scripted model whose answer depends on the tokens that it has read, as a real model's does, and on no row."""

    def __init__(self, reader: Reader, **options: Any):
        super().__init__((), **options)
        self._reader = reader

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        """Logits [V] after `tokens`, which end in `masks_read` masks."""
        return self.spread(*self._reader(tokens[: len(tokens) - masks_read], masks_read))


class ScriptedRows:
    """The rows of one run of a `ScriptedModel`; the prompt ends where the first prediction is asked for.

    Rows are numbered as they begin, neighbours in order. A row begins with the first window that it is part of, or
    with one that writes the first slot of its place again, but for a window that reads the whole row once more.
    """

    warming = False

    def __init__(self, model: ScriptedModel, rows: int, capacity: int):
        self._model = model
        self._capacity = capacity
        self._begun = 0
        self._rows = [_ScriptedRow() for _ in range(rows)]

    def forward(self, window: Window) -> torch.Tensor:
        if not 0 <= window.first <= window.first + window.rows <= len(self._rows):
            raise ValueError(f"the window reaches row {window.first + window.rows - 1} of {len(self._rows)}")
        ids, slots, visible = self._model.called(window, self._capacity)
        positions = window.positions.tolist()
        logits = []
        for index in range(window.rows):
            kept = range(window.columns - window.keep, window.columns)
            real = [column for column in kept if slots[index][column]]
            predicted = positions[index][real[0]] if real else None
            row = self._write(window.first + index, ids[index], slots[index], positions[index], predicted)
            predicted = [[math.nan] * self._model.vocab_size] * (window.keep - len(real))
            predicted += [self._predict(row, visible[index][column], positions[index][column]) for column in real]
            logits.append(predicted)
        return torch.tensor(logits).reshape(window.rows, window.keep, self._model.vocab_size)

    def move(self, source: int, target: int) -> None:
        self._rows[target], self._rows[source] = self._rows[source], _ScriptedRow()

    def copy(self, source: int, target: int, tokens: int) -> None:
        known = {slot: found for slot, found in self._rows[source].tokens.items() if slot <= tokens}
        self._rows[target] = _ScriptedRow(number=self._begun, tokens=known)
        self._begun += 1

    def _write(
        self, place: int, ids: list[int], slots: list[int], positions: list[int], predicted: int | None
    ) -> _ScriptedRow:
        columns = list(zip(slots, ids, positions, strict=True))
        row = self._rows[place]
        if row.number is None or (row.tokens and self._begins(row, columns, predicted)):
            row = self._rows[place] = _ScriptedRow(number=self._begun)
            self._begun += 1
        row.tokens.update((slot, (token, position)) for slot, token, position in columns if slot)
        if predicted is not None:
            row.predicted = predicted
            row.prompt_length = predicted + 1 if row.prompt_length is None else row.prompt_length
        return row

    def _begins(self, row: _ScriptedRow, columns: list[tuple[int, int, int]], predicted: int | None) -> bool:
        """Whether these columns belong to another row than the one whose tokens are in this place."""
        if not any(slot == 1 for slot, _, _ in columns):
            return False
        known = [(slot, token) for slot, token, _ in columns if 0 < slot <= row.predicted + 1]
        again = predicted is not None and 0 <= row.predicted < predicted
        return not again or any(row.tokens[slot][0] != token for slot, token in known)

    def _predict(self, row: _ScriptedRow, visible: list[bool], position: int) -> list[float]:
        mask = self._model.mask_token_id
        seen = [slot for slot, sees in enumerate(visible) if sees]
        absent = [slot for slot in seen if slot not in row.tokens]
        if absent:
            raise ValueError(f"row {row.number} reads slot {absent[0]}, which was never written")
        path = sorted((row.tokens[slot][1], row.tokens[slot][0]) for slot in seen)
        if [place for place, _ in path] != list(range(position + 1)):
            raise ValueError(f"row {row.number} reads positions {[place for place, _ in path]} at position {position}")
        tokens = tuple(token for _, token in path)
        read = [token == mask for token in tokens]
        masks_read = read[::-1].index(False)
        if any(read[: len(read) - masks_read]):
            raise ValueError(f"row {row.number} reads a real token behind a mask at position {read.index(True)}")
        return self._model.predict(row.number or 0, position + 1 - (row.prompt_length or 0), tokens, masks_read)


def visible(window: Window, numbers_K: torch.Tensor) -> torch.Tensor:
    """Which of the slots `numbers_K`, 0 to K - 1, each column sees: bool [R, Q, K]."""
    slots_RQ1, padding_RQ1 = window.slots_RQ[..., None], window.slots_RQ[..., None] == 0
    if window.sees_RQQ is None:
        return (numbers_K <= slots_RQ1) & ((numbers_K > 0) | padding_RQ1)
    first_R1 = window.slots_RQ.masked_fill(window.slots_RQ == 0, len(numbers_K)).amin(1, keepdim=True)
    visible_RQK = ((numbers_K > 0) & (numbers_K < first_R1))[:, None] & ~padding_RQ1
    slots_RQQ = window.slots_RQ[:, None].expand(-1, window.columns, -1)
    # Padding columns share slot 0: what the mask says of them is overwritten below, so that they see slot 0 alone.
    visible_RQK = visible_RQK.scatter(2, slots_RQQ, window.sees_RQQ.expand(window.rows, -1, -1))
    return (visible_RQK & ((numbers_K > 0) & ~padding_RQ1)) | ((numbers_K == 0) & padding_RQ1)

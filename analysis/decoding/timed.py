"""Prompts decoded once, on the wall-clock: by a decoder of ours, or by `generate` of transformers.

If a decoder of ours can do so, a new row takes the place of one that has ended. Between the two readings of the clock
nothing is drawn, folded or turned into text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from transformers import GenerationConfig, PreTrainedModel

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.base import Prompts, check
from mars.decoding.pool import decode
from mars.engine import Engine
from mars.engine.window import Window
from mars.metrics import COUNTED, output_ids
from mars.records import ForwardPass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The times of one run. All times are wall-clock seconds unless said otherwise.

    `outputs` are the token ids of each row up to and including the end of sequence. `first_token_seconds` is the time
    of each row to its first token, from the start of the pass that first read it: the first pass of the run, unless the
    row had to wait for a place. `token_seconds` is the time of a further token, for each row that wrote two or more;
    `model_seconds` is the sum over all records, None without records (`generate`).

    Of the decode and verify passes: `pass_seconds`, the device time of each; `row_passes`, the rows that still wrote,
    summed over passes. `generate` writes its first token while it reads the prompts: that pass counts in `row_passes`
    alone.
    """

    outputs: tuple[tuple[int, ...], ...]
    seconds: float
    first_token_seconds: tuple[float, ...]
    token_seconds: tuple[float, ...]
    model_seconds: float | None
    pass_seconds: tuple[float, ...]
    row_passes: int

    @property
    def tokens(self) -> int:
        """Tokens written by all rows."""
        return sum(map(len, self.outputs))


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """A clock that can first wait for a device to finish its work; `synchronize` None: the device never lags."""

    synchronize: Callable[[], None] | None = None
    now: Callable[[], float] = time.perf_counter

    @classmethod
    def of(cls, device: torch.device) -> Stopwatch:
        """The stopwatch for what runs on `device`."""
        return cls(torch.cuda.synchronize if device.type == "cuda" else None)

    def settled(self) -> float:
        """The seconds on the clock when the device's queue is empty."""
        if self.synchronize is not None:
            self.synchronize()
        return self.now()


def run(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int
) -> Iterator[ForwardPass]:
    """The records of decoding all prompts, row by row numbered from 0; at most `places` rows decode at once.

    Waiting prompts take the places of rows that have ended. A decoder without a method decodes batch after batch, each
    until its longest row has ended.
    """
    if decoder in METHODS:
        check(engine, prompts, settings)
        control = Control(settings.threshold, settings.score)
        yield from decode(engine, prompts, settings, control, METHODS[decoder](engine, settings), places)
        return
    for first in range(0, len(prompts), places):
        for record in DECODERS[decoder](engine, prompts[first : first + places], settings):
            yield replace(record, rows=tuple(replace(part, row=first + part.row) for part in record.rows))


def logits_of(engine: Engine, ids: Sequence[int], keep: int) -> torch.Tensor:
    """The logits [keep, V] of the token after each of the last `keep` ids, in one pass over all of them."""
    ids_1Q = torch.tensor([list(ids)], device=engine.device)
    length = ids_1Q.shape[1]
    slots_1Q = torch.arange(1, length + 1, device=engine.device)[None]
    window = Window(ids_RQ=ids_1Q, slots_RQ=slots_1Q, extent=length + 1, keep=keep)
    return engine.open(1, length).forward(window)[0]


def decode_timed(begin: Callable[[Prompts], Iterator[ForwardPass]], prompts: Prompts, watch: Stopwatch) -> Timed:
    """Decode the prompts; a record counts as arrived when it is yielded."""
    records: list[ForwardPass] = []
    arrivals: list[float] = []
    start = watch.settled()
    for record in begin(prompts):
        records.append(record)
        arrivals.append(watch.now() - start)
    return _fold(records, arrivals, watch.settled() - start, prompts)


def _fold(records: Sequence[ForwardPass], arrivals: Sequence[float], seconds: float, prompts: Prompts) -> Timed:
    outputs = tuple(tuple(output_ids(records, row)) for row in range(len(prompts)))
    begun: dict[int, float] = {}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for record, before, arrival in zip(records, [0.0, *arrivals[:-1]], arrivals, strict=True):
        for row in record.rows:
            begun.setdefault(row.row, before)
            if row.accepted:
                first.setdefault(row.row, arrival)
                last[row.row] = arrival
    counted = [record for record in records if record.phase in COUNTED]
    return Timed(
        outputs=outputs,
        seconds=seconds,
        first_token_seconds=tuple(arrival - begun[row] for row, arrival in first.items()),
        token_seconds=tuple(
            (last[row] - first[row]) / (len(ids) - 1) for row, ids in enumerate(outputs) if len(ids) > 1
        ),
        model_seconds=sum(record.seconds for record in records),
        pass_seconds=tuple(record.seconds for record in counted),
        row_passes=sum(len(record.rows) for record in counted),
    )


class Generate:
    """`model.generate`, greedy, with its default cache and a left-padded batch: the external baseline."""

    def __init__(self, model: PreTrainedModel, stop_token_ids: frozenset[int], max_new_tokens: int):
        self.stop_token_ids = stop_token_ids
        self.max_new_tokens = max_new_tokens
        self.padding = min(stop_token_ids, default=0)
        self._model = model.eval()
        # Else what the checkpoint's generation_config.json says, a repetition penalty say, would fill in.
        self._model.generation_config = self._config(max_new_tokens)

    def texts(self, prompts: Prompts) -> tuple[tuple[int, ...], ...]:
        """The token ids of each row up to and including the end of sequence."""
        return tuple(self._until_stop(row) for row in self._generate(prompts, self.max_new_tokens))

    def timed(self, prompts: Prompts, places: int, watch: Stopwatch) -> Timed:
        """Decode batch by batch, each once more for its first token alone; seconds per pass are means of the rest."""
        batches = [self._timed(prompts[first : first + places], watch) for first in range(0, len(prompts), places)]
        joined = {
            name: tuple(chain.from_iterable(getattr(batch, name) for batch in batches))
            for name in ("outputs", "first_token_seconds", "token_seconds", "pass_seconds")
        }
        return Timed(
            seconds=sum(batch.seconds for batch in batches),
            model_seconds=None,
            row_passes=sum(batch.row_passes for batch in batches),
            **joined,
        )

    def _timed(self, prompts: Prompts, watch: Stopwatch) -> Timed:
        start = watch.settled()
        outputs = self.texts(prompts)
        seconds = watch.settled() - start
        start = watch.settled()
        self._generate(prompts, 1)
        first = watch.settled() - start
        rows, further = len(prompts), max(map(len, outputs)) - 1
        step = (seconds - first) / further if further else 0.0
        return Timed(
            outputs=outputs,
            seconds=seconds,
            first_token_seconds=(first,) * rows,
            token_seconds=(step,) * sum(len(ids) > 1 for ids in outputs),
            model_seconds=None,
            pass_seconds=(step,) * further,
            row_passes=sum(map(len, outputs)),
        )

    def _generate(self, prompts: Prompts, max_new_tokens: int) -> list[list[int]]:
        longest = max(map(len, prompts))
        padded = [[self.padding] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        shown = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        device = self._model.device
        ids_RK = self._model.generate(
            torch.tensor(padded, device=device),
            attention_mask=torch.tensor(shown, device=device),
            generation_config=self._config(max_new_tokens),
        )
        written: list[list[int]] = ids_RK[:, longest:].tolist()
        return written

    def _config(self, max_new_tokens: int) -> GenerationConfig:
        return GenerationConfig(
            do_sample=False,
            use_cache=True,
            max_new_tokens=max_new_tokens,
            eos_token_id=sorted(self.stop_token_ids) or None,
            pad_token_id=self.padding,
        )

    def _until_stop(self, ids: Sequence[int]) -> tuple[int, ...]:
        for place, token in enumerate(ids):
            if token in self.stop_token_ids:
                return tuple(ids[: place + 1])
        return tuple(ids)

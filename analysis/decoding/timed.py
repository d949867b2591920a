"""Prompts decoded once, on the wall-clock: by a decoder of ours, or by `generate` of transformers.

Nothing is drawn, folded or turned to text between the two readings of the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, PreTrainedModel

from mars.metrics import COUNTED, output_ids
from mars.records import ForwardPass

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The times of one run. All times are wall-clock seconds unless said otherwise.

    `outputs` are the token ids of each row up to and including the end of sequence; `first_token_seconds` is how long
    each row took to its first token from the start of the pass that first read it, which is the first pass of the run
    unless it had to wait for a place; `token_seconds` what a further token took, for each row that wrote two or more;
    `model_seconds` the sum over all records, None where there are none (`generate`).

    Of the decode and verify passes: `passes`, how many there were; `pass_seconds`, the device time of each;
    `row_passes`, the rows that still wrote, summed over passes; `query_tokens`, positions forwarded; `read_positions`,
    rows times cached positions up to the furthest, summed over passes. `generate` writes its first token while it reads
    the prompts: that pass counts in `passes` and `row_passes` alone.
    """

    outputs: tuple[tuple[int, ...], ...]
    seconds: float
    first_token_seconds: tuple[float, ...]
    token_seconds: tuple[float, ...]
    model_seconds: float | None
    passes: int
    pass_seconds: tuple[float, ...]
    row_passes: int
    query_tokens: int
    read_positions: int

    @property
    def tokens(self) -> int:
        """Tokens written by all rows."""
        return sum(map(len, self.outputs))


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """The time, and the time once a device has finished what it was given; `synchronize` None: it never lags."""

    synchronize: Callable[[], None] | None = None
    now: Callable[[], float] = time.perf_counter

    @classmethod
    def of(cls, device: torch.device) -> Stopwatch:
        """The stopwatch for what runs on `device`."""
        return cls(torch.cuda.synchronize if device.type == "cuda" else None)

    def settled(self) -> float:
        """Seconds, with the device's queue empty."""
        if self.synchronize is not None:
            self.synchronize()
        return self.now()


def decode_timed(run: Callable[[Prompts], Iterator[ForwardPass]], prompts: Prompts, watch: Stopwatch) -> Timed:
    """Decode the prompts; a record counts as arrived when `run` yields it."""
    records: list[ForwardPass] = []
    arrivals: list[float] = []
    start = watch.settled()
    for record in run(prompts):
        records.append(record)
        arrivals.append(watch.now())
    seconds = watch.settled() - start
    return _fold(records, [arrival - start for arrival in arrivals], seconds, prompts)


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
        passes=len(counted),
        pass_seconds=tuple(record.seconds for record in counted),
        row_passes=sum(len(record.rows) for record in counted),
        query_tokens=sum(record.query_tokens for record in counted),
        read_positions=sum(_positions(record, prompts) for record in counted),
    )


def _positions(record: ForwardPass, prompts: Prompts) -> int:
    return len(record.rows) * max(len(prompts[row.row]) + row.start + len(row.proposals) for row in record.rows)


class Generate:
    """`model.generate`, greedy, with its default cache and a left-padded batch: the baseline from outside."""

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

    def timed(self, prompts: Prompts, watch: Stopwatch) -> Timed:
        """Decode one batch, and once more for its first token alone; the seconds per pass are means over the rest."""
        start = watch.settled()
        outputs = self.texts(prompts)
        seconds = watch.settled() - start
        start = watch.settled()
        self._generate(prompts, 1)
        first = watch.settled() - start
        rows, further = len(prompts), max(map(len, outputs)) - 1
        step = (seconds - first) / further if further else 0.0
        longest = max(map(len, prompts))
        return Timed(
            outputs=outputs,
            seconds=seconds,
            first_token_seconds=(first,) * rows,
            token_seconds=(step,) * sum(len(ids) > 1 for ids in outputs),
            model_seconds=None,
            passes=1 + further,
            pass_seconds=(step,) * further,
            row_passes=sum(map(len, outputs)),
            query_tokens=rows * further,
            read_positions=rows * sum(range(longest + 1, longest + 1 + further)),
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

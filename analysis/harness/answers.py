"""Decodes many prompts with strings that end an answer: yields each complete answer at once, with its cost.

A row whose answer is complete leaves its place to the next prompt before the next pass. If a decoder cannot do that,
the rows of a batch go on together until all are complete; tokens after the end of an answer are dropped and not
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from analysis.decoding.timed import Stopwatch, is_continuous
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.base import Prompts, check
from mars.decoding.method import Row
from mars.decoding.pool import Pool
from mars.engine import Engine
from mars.metrics import COUNTED
from mars.records import ForwardPass, RowPass

Ends = Callable[[Sequence[int]], bool]
"""Told all ids of an answer after each token: whether it is complete. One for each answer, since it may remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ids up to the token that ended it; passes and seconds as the columns of the run store have them."""

    ids: tuple[int, ...]
    passes: int
    seconds: float
    model_seconds: float
    finish_reason: Literal["stop", "length"]
    acceptance_lengths: tuple[int, ...]


def answers(
    engine: Engine,
    decoder: str,
    settings: DecodingSettings,
    prompts: Prompts,
    places: int,
    new_ends: Callable[[], Ends],
) -> Iterator[tuple[int, Answer]]:
    """Yield the number of a prompt and its answer, in the order in which they end; `places` prompts decode at once.

    Raises:
        ValueError: a prompt is empty or does not fit, or the decoder cannot run this model.
    """
    rows = [_Row(new_ends()) for _ in prompts]
    watch = Stopwatch.of(engine.device)
    run = _joining if is_continuous(decoder) else _in_batches
    records = run(engine, decoder, settings, prompts, places, rows)
    begun: set[int] = set()
    while True:
        start = watch.settled()
        record = next(records, None)
        seconds = watch.settled() - start
        if record is None:
            return
        begun |= {part.row for part in record.rows}
        going = {number for number in begun if not rows[number].complete}
        # Where rows wait for one that goes on past its end, the pass is on account of those that wait.
        sharing = {part.row for part in record.rows} & going or going
        for number in sharing:
            rows[number].seconds += seconds / len(sharing)
            rows[number].model_seconds += record.seconds / len(sharing)
        for part in record.rows:
            if part.row in going:
                rows[part.row].take(part, counted=record.phase in COUNTED)
        for number in sorted(number for number in going if rows[number].complete):
            yield number, rows[number].answer()


@dataclass(slots=True)
class _Row:
    """An answer that is not complete yet."""

    ends: Ends
    ids: list[int] = field(default_factory=list)
    accepted: Counter[int] = field(default_factory=Counter)
    passes: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0
    finish_reason: Literal["stop", "length"] | None = None

    @property
    def complete(self) -> bool:
        return self.finish_reason is not None

    def take(self, part: RowPass, *, counted: bool) -> None:
        """Take in a pass, up to the token that completes the answer."""
        before = len(self.ids)
        for token in part.accepted_ids:
            self.ids.append(token)
            if self.ends(self.ids):
                self.finish_reason = "stop"
                break
        self.passes += counted
        if len(self.ids) > before:
            self.accepted[len(self.ids) - before] += 1
        if not self.complete and part.finish_reason is not None:
            self.finish_reason = "length" if part.finish_reason == "length" else "stop"

    def answer(self) -> Answer:
        """The complete answer."""
        if self.finish_reason is None:
            raise RuntimeError("the answer is not complete")
        return Answer(
            ids=tuple(self.ids),
            passes=self.passes,
            seconds=self.seconds,
            model_seconds=self.model_seconds,
            finish_reason=self.finish_reason,
            acceptance_lengths=tuple(self.accepted[length + 1] for length in range(max(self.accepted, default=0))),
        )


def _joining(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int, rows: Sequence[_Row]
) -> Iterator[ForwardPass]:
    """The records of rows that leave when they are complete, and of those that take their places."""
    check(engine, prompts, settings)
    method = METHODS[decoder](engine, settings)
    capacity = max(map(len, prompts)) + settings.max_new_tokens + method.lookahead
    pool = Pool(engine, min(places, len(prompts)), capacity, use_cache=settings.use_cache)
    controls = [Control(settings.threshold, settings.score) for _ in prompts]
    for number, (prompt, control) in enumerate(zip(prompts, controls, strict=True)):
        pool.join(Row(number=number, prompt=prompt, method=method, settings=settings, control=control))
    while (record := pool.step()) is not None:
        yield record
        for part in record.rows:
            if rows[part.row].complete:
                controls[part.row].stop()


def _in_batches(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int, rows: Sequence[_Row]
) -> Iterator[ForwardPass]:
    """The records of one batch after the other; each ends when all its rows are complete."""
    for first in range(0, len(prompts), places):
        batch = prompts[first : first + places]
        control = Control(settings.threshold, settings.score)
        for record in DECODERS[decoder](engine, batch, settings, control):
            yield replace(record, rows=tuple(replace(part, row=first + part.row) for part in record.rows))
            if all(row.complete for row in rows[first : first + len(batch)]):
                control.stop()

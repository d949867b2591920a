"""Decodes many prompts: yields each complete answer at once, with its cost, as the rows of the run store have it.

A row whose answer is complete leaves its place to the next prompt before the next pass. If a decoder cannot do that,
the rows of a batch go on together until all are complete; tokens after the end of an answer are dropped and not
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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


Mask = tuple[int, int, float, int]
"""A proposal from a mask: its position in the answer, how many masks it has read, its score and its token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ids up to the token that ended it; passes and seconds as the columns of the run store have them.

    `text` is empty until somebody decodes the ids. `masks` are the mask proposals that were not accepted at once, if
    they were asked for.
    """

    ids: tuple[int, ...]
    text: str = ""
    passes: int
    seconds: float
    model_seconds: float
    finish_reason: Literal["stop", "length"]
    acceptance_lengths: tuple[int, ...]
    masks: tuple[Mask, ...] = ()

    def columns(self) -> dict[str, Any]:
        """The columns of a row that say what was written, and what it cost."""
        kept = ("passes", "seconds", "model_seconds", "finish_reason", "text")
        cost = {name: getattr(self, name) for name in kept}
        return {"tokens": len(self.ids), **cost, "acceptance_lengths": list(self.acceptance_lengths)}


def _never(_: Sequence[int]) -> bool:
    return False


def answers(
    engine: Engine,
    decoder: str,
    settings: DecodingSettings,
    prompts: Prompts,
    places: int,
    new_ends: Callable[[], Ends] = lambda: _never,
    *,
    masks: bool = False,
) -> Iterator[tuple[int, Answer]]:
    """Yield the number of a prompt and its answer, in the order in which they end; `places` prompts decode at once.

    Without `new_ends` only the end of sequence or the length limit ends an answer. `masks` keeps its mask proposals.

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
        # A pass of a row that goes on past its end is charged to the rows that wait for it.
        sharing = {part.row for part in record.rows} & going or going
        for number in sharing:
            rows[number].seconds += seconds / len(sharing)
            rows[number].model_seconds += record.seconds / len(sharing)
        for part in record.rows:
            if part.row in going:
                rows[part.row].take(part, counted=record.phase in COUNTED)
                if masks:
                    rows[part.row].masks += _masks(part)
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
    masks: list[Mask] = field(default_factory=list)

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
            masks=tuple(self.masks),
        )


def _masks(part: RowPass) -> list[Mask]:
    """The mask proposals behind what the pass accepts; the first one reads one mask, in the last accepted place."""
    real = part.start + part.accepted
    return [
        (real + ahead, 1 + ahead, proposal.score, proposal.token_id)
        for ahead, proposal in enumerate(part.proposals[part.accepted :])
        if proposal.source == "mask"
    ]


def texts(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int
) -> list[tuple[int, ...]]:
    """The token ids that the decoder writes for each prompt, end of sequence included, `places` rows at a time."""
    found = dict(answers(engine, decoder, settings, prompts, places))
    return [found[number].ids for number in range(len(prompts))]


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

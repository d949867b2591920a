"""Decodes many prompts: yields each complete answer at once, with its cost, as the rows of the run store have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from analysis.decoding.timed import Stopwatch, run
from mars.config import DecodingSettings
from mars.decoding.base import Prompts
from mars.engine import Engine
from mars.metrics import COUNTED
from mars.records import RowPass

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
    finish_reason: Literal["stop", "length"]
    acceptance_lengths: tuple[int, ...]
    masks: tuple[Mask, ...] = ()

    def columns(self) -> dict[str, Any]:
        """The columns of a row that say what was written, and what it cost."""
        cost = {name: getattr(self, name) for name in ("passes", "seconds", "finish_reason", "text")}
        return {"tokens": len(self.ids), **cost, "acceptance_lengths": list(self.acceptance_lengths)}


def answers(
    engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int, *, masks: bool = False
) -> Iterator[tuple[int, Answer]]:
    """Yield the number of a prompt and its answer, in the order in which they end; `places` prompts decode at once.

    `masks` keeps its mask proposals. ValueError where a prompt is empty or does not fit, or the decoder cannot run this
    model.
    """
    rows = [_Row() for _ in prompts]
    watch = Stopwatch.of(engine.device)
    records = run(engine, decoder, settings, prompts, places)
    while True:
        start = watch.settled()
        record = next(records, None)
        seconds = watch.settled() - start
        if record is None:
            return
        for part in record.rows:
            row = rows[part.row]
            row.seconds += seconds / len(record.rows)
            row.take(part, counted=record.phase in COUNTED)
            if masks:
                row.masks += _masks(part)
            if row.finish_reason is not None:
                yield part.row, row.answer()


@dataclass(slots=True)
class _Row:
    """An answer that is not complete yet."""

    ids: list[int] = field(default_factory=list)
    accepted: Counter[int] = field(default_factory=Counter)
    passes: int = 0
    seconds: float = 0.0
    finish_reason: Literal["stop", "length"] | None = None
    masks: list[Mask] = field(default_factory=list)

    def take(self, part: RowPass, *, counted: bool) -> None:
        self.ids += part.accepted_ids
        self.passes += counted
        if part.accepted:
            self.accepted[part.accepted] += 1
        if part.finish_reason is not None:
            self.finish_reason = "length" if part.finish_reason == "length" else "stop"

    def answer(self) -> Answer:
        return Answer(
            ids=tuple(self.ids),
            passes=self.passes,
            seconds=self.seconds,
            finish_reason=self.finish_reason or "stop",
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

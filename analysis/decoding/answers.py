"""Decodes many prompts: yields each complete answer at once, with its cost, as the rows of the run store have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from analysis.decoding.timed import Stopwatch, run
from mars.config import DecodingSettings
from mars.decoding.base import Prompts
from mars.engine import Engine
from mars.metrics import Tally
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
    ids: defaultdict[int, list[int]] = defaultdict(list)
    seconds: defaultdict[int, float] = defaultdict(float)
    proposed: defaultdict[int, list[Mask]] = defaultdict(list)
    tally, watch = Tally(), Stopwatch.of(engine.device)
    records = run(engine, decoder, settings, prompts, places)
    while True:
        start = watch.settled()
        record = next(records, None)
        spent = watch.settled() - start
        if record is None:
            return
        tally.add(record)
        for part in record.rows:
            row, count = part.row, tally.rows[part.row]
            ids[row] += part.accepted_ids
            seconds[row] += spent / len(record.rows)
            proposed[row] += _masks(part) if masks else []
            if part.finish_reason is not None:
                lengths = count.acceptance_lengths
                answer = Answer(
                    ids=tuple(ids[row]),
                    passes=count.passes,
                    seconds=seconds[row],
                    finish_reason="length" if part.finish_reason == "length" else "stop",
                    acceptance_lengths=tuple(lengths[length + 1] for length in range(max(lengths, default=0))),
                    masks=tuple(proposed[row]),
                )
                yield row, answer


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

"""Decodes a chunk of problems: a row for each (docs/runs.md), and whether its mask proposals were right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from analysis.decoding.timed import Stopwatch, arriving, batches, run
from analysis.sweeps.jobs import Job
from mars.checkpoint import Checkpoint
from mars.metrics import COUNTED
from mars.records import FinishReason, ForwardPass
from mars.tasks import TASKS, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows as objects with the columns' names; `proposals` likewise, None where they are not kept."""

    rows: list[dict[str, Any]]
    proposals: list[dict[str, Any]] | None


@dataclass(slots=True)
class _Row:
    """The counts of one row. `masks`: position, depth, score and token of each mask proposal."""

    ids: list[int] = field(default_factory=list)
    passes: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0
    accepted: Counter[int] = field(default_factory=Counter)
    finish_reason: FinishReason | None = None
    masks: list[tuple[int, int, float, int]] = field(default_factory=list)


def decode_chunk(checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
    """Decode these problems of a run, and check the answers.

    Raises:
        ValueError: the decoder cannot run this checkpoint, or a prompt does not fit its context.
    """
    problems = [job.problem(place) for place in places]
    prompts = [checkpoint.encode(problem.prompt) for _, problem in problems]
    decoder, batch_size = job.setting["decoder"], job.setting["batch_size"]
    watch = Stopwatch.of(checkpoint.engine.device)
    rows: list[_Row] = []
    for batch in batches(decoder, prompts, batch_size):
        begin = partial(run, checkpoint.engine, decoder, job.settings, batch, batch_size)
        records, times = arriving(begin, watch)
        rows += _fold(records, times, len(batch), job)
    proposals = [found for place, row in zip(problems, rows, strict=True) for found in _proposals(place, row)]
    return Chunk(
        rows=[_row(checkpoint, place, row) for place, row in zip(problems, rows, strict=True)],
        proposals=proposals if job.proposals else None,
    )


def _fold(records: Sequence[ForwardPass], times: Sequence[float], count: int, job: Job) -> list[_Row]:
    """The rows from the records; `times` are the start, the arrival of each record, and the end."""
    rows = [_Row() for _ in range(count)]
    for record, before, after in zip(records, times, times[1:], strict=False):
        _share(rows, {part.row for part in record.rows}, after - before, record.seconds)
        for part in record.rows:
            row = rows[part.row]
            row.ids += part.accepted_ids
            row.passes += record.phase in COUNTED
            row.finish_reason = part.finish_reason or row.finish_reason
            if part.accepted:
                row.accepted[part.accepted] += 1
            if job.proposals:
                real = part.start + part.accepted
                row.masks += [
                    # The first of them reads one mask, in the place of the last accepted token.
                    (real + ahead, 1 + ahead, proposal.score, proposal.token_id)
                    for ahead, proposal in enumerate(part.proposals[part.accepted :])
                    if proposal.source == "mask"
                ]
    _share(rows, set(), times[-1] - times[-2], 0.0)
    return rows


def _share(rows: Sequence[_Row], members: set[int], seconds: float, model_seconds: float) -> None:
    """Share the time of a pass among its rows; a pass without rows is shared among all."""
    sharing = sorted(members) or range(len(rows))
    for member in sharing:
        rows[member].seconds += seconds / len(sharing)
        rows[member].model_seconds += model_seconds / len(sharing)


def _row(checkpoint: Checkpoint, place: tuple[int, Problem], row: _Row) -> dict[str, Any]:
    number, problem = place
    text = checkpoint.decode(row.ids)
    return {
        "task": problem.task,
        "number": number,
        "correct": TASKS[problem.task].check(problem, text),
        "tokens": len(row.ids),
        "passes": row.passes,
        "seconds": row.seconds,
        "model_seconds": row.model_seconds,
        "finish_reason": row.finish_reason,
        "acceptance_lengths": [row.accepted[length] for length in range(1, max(row.accepted, default=0) + 1)],
        "text": text,
    }


def _proposals(place: tuple[int, Problem], row: _Row) -> Iterator[dict[str, Any]]:
    """The mask proposals at positions that were written in the end."""
    number, problem = place
    for position, depth, score, token in row.masks:
        if position < len(row.ids):
            agrees = row.ids[position] == token
            yield {"task": problem.task, "number": number, "depth": depth, "score": score, "agrees": agrees}

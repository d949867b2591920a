"""Decodes a chunk of problems: a row for each (docs/runs.md), and whether its mask proposals were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.decoding.answers import answers
from analysis.sweeps.jobs import Job
from mars.checkpoint import Checkpoint
from mars.tasks import TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows as objects with the columns' names; `proposals` likewise, None where they are not kept."""

    rows: list[dict[str, Any]]
    proposals: list[dict[str, Any]] | None


def decode_chunk(checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
    """Decode these problems of a run, and check the answers.

    Raises:
        ValueError: the decoder cannot run this checkpoint, or a prompt does not fit its context.
    """
    problems = [job.problem(place) for place in places]
    prompts = [checkpoint.encode(problem.prompt) for _, problem in problems]
    decoder, batch_size = job.setting["decoder"], job.setting["batch_size"]
    found = dict(answers(checkpoint.engine, decoder, job.settings, prompts, batch_size, masks=job.proposals))
    rows, proposals = [], []
    for place, (number, problem) in enumerate(problems):
        answer = replace(found[place], text=checkpoint.decode(found[place].ids))
        where = {"task": problem.task, "number": number}
        rows.append({**where, "correct": TASKS[problem.task].check(problem, answer.text), **answer.columns()})
        proposals += [
            {**where, "depth": depth, "score": score, "agrees": answer.ids[position] == token}
            for position, depth, score, token in answer.masks
            if position < len(answer.ids)  # the others are past the end
        ]
    return Chunk(rows=rows, proposals=proposals if job.proposals else None)

"""Generates a stored text again, to show its passes: the same problem, weights and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from uuid import uuid4

from app.compare.generation import Answer, GenerateRequest, generate
from app.compare.lane import MOST_ALTERNATIVES, Lane, keep
from app.compare.problems import is_right
from app.compare.runner import Runner
from app.runs.run import RunQuestion
from app.runs.what_if import page_document
from app.tradeoffs.card import why_not
from app.tradeoffs.run_cache import Store
from app.tradeoffs.samples import Entry, entry_of, problem_of, row_of
from app.tradeoffs.weights import named
from mars.config import DecodingSettings
from mars.tasks import Problem

BUSY = "Compare is writing in this page; wait for its end, or press Stop there."
SAME = "Written again here: the same text as in the measured run."
OTHER = (
    "Written again here. The text differs from the measured run, which used other hardware, another number format, "
    "another version or a longer limit."
)
STOPPED = "Writing was stopped before the end."


def rewrite(runner: Runner, session: str, store: Store, run: str, task: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield sentences under `progress`, and last the `run` as the Step through tab opens it.

    Raises:
        ValueError: one sentence why it cannot be generated here, or not now.
    """
    entry = entry_of(store.runs, run)
    stored, problem = row_of(store.runs, entry, task, number), problem_of(entry, task, number)
    checkpoint, draft = (named(entry[part], runner.models.sources) for part in ("model", "draft"))
    lacking = why_not(entry, checkpoint, draft)
    if lacking or problem is None or checkpoint is None:
        raise ValueError(lacking or "The app does not have this problem.")
    if runner.sessions.running(session):
        raise ValueError(BUSY)
    wanted = GenerateRequest(
        prompt=runner.limits.check_prompt(problem.prompt),
        checkpoint=checkpoint,
        decoder=entry["decoder"],
        settings=settings_of(entry, runner.limits.new_tokens),
        draft=draft,
        own_block_size=True,
        trace=True,
    )

    def finish(lane: Lane) -> Answer:
        return {"run": _document(lane, problem, stored["text"])}

    for answer in generate(runner, session, wanted, finish=finish):
        if "run" in answer:
            yield answer
        else:
            tokens = answer.get("counts", {}).get("tokens", 0)
            yield {"progress": f"Writing: {tokens} tokens so far …" if tokens else answer["sentence"]}


def settings_of(entry: Entry, most_tokens: int) -> DecodingSettings:
    """The settings of the run, with the alternatives that Step through shows, and within the app's limit of length."""
    known = {each.name for each in fields(DecodingSettings)}
    given = {name: value for name, value in entry["settings"].items() if name in known}
    given |= {"alternatives": MOST_ALTERNATIVES, "max_new_tokens": min(given["max_new_tokens"], most_tokens)}
    return DecodingSettings(**{"threshold": None, **given})


def _document(lane: Lane, problem: Problem, stored: str) -> str:
    if lane.finish_reason == "cancelled":
        raise ValueError(STOPPED)
    lane.key, lane.title = "a", "Written again"
    lane.right = is_right(problem, lane.text)
    question = RunQuestion(prompt=problem.prompt, max_new_tokens=lane.settings.max_new_tokens)
    note = SAME if lane.text == stored else OTHER
    return page_document(keep(uuid4().hex, question, [lane], note=note))

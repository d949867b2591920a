"""A finished run: what was asked, and for each lane its text and every forward pass; and its JSON document.

The document is what is saved, loaded, kept by the browser and embedded in replays:

    {"schema": 1, "kind": "mars-lens-run", "id", "date", "title", "note", "question", "lanes": [...]}

Its fields are those of the dataclasses here; the records are as `mars.records` writes them. No torch here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from mars.config import DecodingSettings
from mars.records import FinishReason, ForwardPass

SCHEMA: Final = 1
KIND: Final = "mars-lens-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question: `task` and `seed` name the problem it is, None where its answer is not known."""

    prompt: str
    max_new_tokens: int
    task: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLane:
    """Who wrote, how, what, and every forward pass.

    `prompt_tokens` is the length of the prompt for this checkpoint. `written` is what each accepted token added to the
    text: a character of several tokens comes with the last of them. `pieces` is the text of every token that is
    proposed or an alternative, taken alone; `stop_ids` are those that end a turn.
    """

    key: str
    title: str
    checkpoint: str
    decoder: str
    settings: DecodingSettings
    prompt_tokens: int
    text: str
    written: tuple[str, ...]
    right: bool | None
    finish_reason: FinishReason
    stop_ids: tuple[int, ...]
    pieces: Mapping[int, str]
    records: tuple[ForwardPass, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A comparison that is over, with everything needed to look at it again.

    `date` is ISO 8601. `title` and `note` say what a shipped run shows; both are empty for others.
    """

    identity: str
    date: str
    question: Asked
    lanes: tuple[RunLane, ...]
    title: str = ""
    note: str = ""


def token_ids(records: tuple[ForwardPass, ...]) -> list[int]:
    """Every token id that these records name, ascending."""
    found = set()
    for record in records:
        for row in record.rows:
            for proposal in row.proposals:
                found.add(proposal.token_id)
                found.update(token for token, _ in proposal.alternatives)
    return sorted(found)


def to_json(run: Run) -> str:
    """The document, on one line. `<` is written as an escape, so that it can stand inside a page."""
    text = json.dumps(_document(run), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def _document(run: Run) -> dict[str, Any]:
    question = run.question
    problem = None if question.task is None else {"task": question.task, "seed": question.seed}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "id": run.identity,
        "date": run.date,
        "title": run.title,
        "note": run.note,
        "question": {"prompt": question.prompt, "max_new_tokens": question.max_new_tokens, "problem": problem},
        "lanes": [_lane(lane) for lane in run.lanes],
    }


def _lane(lane: RunLane) -> dict[str, Any]:
    return {
        "key": lane.key,
        "title": lane.title,
        "checkpoint": lane.checkpoint,
        "decoder": lane.decoder,
        "settings": asdict(lane.settings),
        "prompt_tokens": lane.prompt_tokens,
        "text": lane.text,
        "written": list(lane.written),
        "right": lane.right,
        "finish_reason": lane.finish_reason,
        "stop_ids": list(lane.stop_ids),
        "pieces": {str(token): piece for token, piece in lane.pieces.items()},
        "records": [asdict(record) for record in lane.records],
    }

"""What travels to the page while a run goes on: lines of JSON, one a message, only ever appended.

Every message has a `kind`; the browser's `stage.js` draws them in order. Floats are rounded for the page only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from mars.records import ForwardPass

Message = dict[str, Any]
State = Literal["idle", "loading", "queued", "running", "done", "stopped", "failed"]


def line(message: Message) -> str:
    """One message as a line. `<` is written as an escape, so that the value never looks like a tag to anybody."""
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c") + "\n"


def opening(identity: str, lanes: Sequence[Message]) -> Message:
    """The first message of a run's value: a new `identity` tells the page to start afresh with these lanes."""
    return {"kind": "open", "id": identity, "lanes": list(lanes)}


def refusal(identity: str, sentence: str) -> Message:
    """The only message of a value that says why nothing runs; what the page shows stays."""
    return {"kind": "refusal", "id": identity, "sentence": sentence}


def lane(key: str, title: str, checkpoint: str, note: str, hint: str, problem: str | None = None) -> Message:
    """How a lane introduces itself; `hint` fills it until text comes, `problem` says why it cannot write."""
    return {"key": key, "title": title, "checkpoint": checkpoint, "note": note, "hint": hint, "problem": problem}


def state(name: State, sentence: str) -> Message:
    """The state of the run and the sentence for the status line."""
    return {"kind": "state", "state": name, "sentence": sentence}


def forward_pass(
    key: str, number: int, record: ForwardPass, pieces: Sequence[str], stops: frozenset[int], counts: Message
) -> Message:
    """One pass of one lane: the tokens it accepted, each [text, score, source, ends the turn], and the counters."""
    row = record.rows[0]
    accepted = row.proposals[: row.accepted]
    tokens = [
        [piece, round(proposal.score, 4), proposal.source, proposal.token_id in stops]
        for piece, proposal in zip(pieces, accepted, strict=True)
    ]
    return {
        "kind": "pass",
        "lane": key,
        "number": number,
        "start": row.start,
        "threshold": row.threshold,
        "window": len(row.proposals),
        "tokens": tokens,
        "counts": counts,
    }


def counters(key: str, counts: Message) -> Message:
    """New counters of a lane without new text: a pass that accepts nothing."""
    return {"kind": "counts", "lane": key, "counts": counts}


def lane_end(key: str, reason: str, tail: str) -> Message:
    """A lane is over: why, and the text that still waited for the rest of a character."""
    return {"kind": "end", "lane": key, "reason": reason, "tail": tail}


def difference(tokens: dict[str, int]) -> Message:
    """The token of each lane at which the texts first differ."""
    return {"kind": "difference", "tokens": tokens}


def same() -> Message:
    """Both lanes ended by themselves and wrote the same text."""
    return {"kind": "same"}


def verdict(key: str, right: bool) -> Message:
    """Whether the text of a lane solves the problem."""
    return {"kind": "verdict", "lane": key, "right": right}


def speed_up(ratio: float) -> Message:
    """MARS over AR in output tokens per second of model time."""
    return {"kind": "speedup", "ratio": round(ratio, 3)}

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
Kind = Literal["clean", "mask", "draft"]
Refused = Literal["threshold", "draft", "end", "limit"]


def line(message: Message) -> str:
    """One message as a line. `<` is written as an escape, so that the value never looks like a tag to anybody."""
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c") + "\n"


def opening(identity: str, lanes: Sequence[Message], live: bool = False) -> Message:
    """The first message of a run's value: a new `identity` tells the page to start afresh with these lanes.

    `live` says that more can be fetched by this identity (`app.wire`).
    """
    return {"kind": "open", "id": identity, "lanes": list(lanes), "live": live}


def refusal(identity: str, sentence: str) -> Message:
    """The only message of a value that says why nothing runs; what the page shows stays."""
    return {"kind": "refusal", "id": identity, "sentence": sentence}


def lane(
    key: str,
    title: str,
    settings: Message,
    *,
    family: str,
    note: str,
    hint: str,
    problem: str | None = None,
    inactive: str | None = None,
) -> Message:
    """How a lane introduces itself.

    `settings` are the fields of its `LaneChoice`; `hint` fills it until text comes, `problem` says why it cannot write,
    `inactive` why it writes one token per pass although it could write more.
    """
    return {
        "key": key,
        "family": family,
        "title": title,
        "checkpoint": settings["checkpoint"],
        "decoder": settings["decoder"],
        "score": settings["score"],
        "settings": settings,
        "note": note,
        "hint": hint,
        "problem": problem,
        "inactive": inactive,
    }


def inactive(key: str, sentence: str | None) -> Message:
    """From now on a lane writes one token per pass, and why; or None, more again."""
    return {"kind": "inactive", "lane": key, "sentence": sentence}


def state(name: State, sentence: str) -> Message:
    """The state of the run and the sentence for the status line."""
    return {"kind": "state", "state": name, "sentence": sentence}


def forward_pass(
    key: str,
    number: int,
    record: ForwardPass,
    *,
    tokens: Sequence[Sequence[Any]],
    ghosts: Sequence[Sequence[Any]],
    refused: Refused | None,
    counts: Message,
) -> Message:
    """One pass of one lane, its counted passes numbered from 1.

    `tokens` are what it accepted, each as [text, score, source, ends the turn, kind, alternatives], where kind is
    clean, mask or draft, and alternatives are up to five [text, probability]. `ghosts` are the proposals that it did
    not accept, [text, score, source]; `refused` says why not the first of them.
    """
    row = record.rows[0]
    return {
        "kind": "pass",
        "lane": key,
        "number": number,
        "start": row.start,
        "threshold": row.threshold,
        "window": len(row.proposals),
        "phase": record.phase,
        "tokens": list(tokens),
        "ghosts": list(ghosts),
        "refused": refused,
        "counts": counts,
    }


def counters(key: str, counts: Message) -> Message:
    """New counters of a lane without new text: a pass that accepts nothing."""
    return {"kind": "counts", "lane": key, "counts": counts}


def lane_end(key: str, reason: str, tail: str) -> Message:
    """A lane is over: why, and the text that still waited for the rest of a character."""
    return {"kind": "end", "lane": key, "reason": reason, "tail": tail}


def difference(tokens: dict[str, int], baseline: str) -> Message:
    """The token of the baseline lane and of another one at which their texts first differ."""
    return {"kind": "difference", "tokens": tokens, "baseline": baseline}


def same(lanes: Sequence[str]) -> Message:
    """These lanes, the baseline first, ended by themselves and wrote the same text."""
    return {"kind": "same", "lanes": list(lanes)}


def verdict(key: str, right: bool) -> Message:
    """Whether the text of a lane solves the problem."""
    return {"kind": "verdict", "lane": key, "right": right}


def speed_up(ratios: dict[str, float], baseline: str) -> Message:
    """Each other lane over the baseline in output tokens per second of model time."""
    return {"kind": "speedup", "ratios": {key: round(ratio, 3) for key, ratio in ratios.items()}, "baseline": baseline}


def thinned(messages: Sequence[Message]) -> list[Message]:
    """Messages that are shown at once, without what later ones replace: counters of a lane, and speed-ups."""
    kept: list[Message] = []
    counted, compared = set[str](), False
    for message in reversed(messages):
        if message["kind"] == "speedup":
            if compared:
                continue
            compared = True
        elif message["kind"] == "open":
            counted, compared = set(), False
        elif "counts" in message and message["lane"] in counted:
            if message["kind"] == "pass":
                kept.append({key: value for key, value in message.items() if key != "counts"})
            continue
        elif "counts" in message:
            counted.add(message["lane"])
        kept.append(message)
    return kept[::-1]

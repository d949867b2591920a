"""A run file from anywhere, checked before anything else sees it: what does not fit is refused with one sentence."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, get_args

from app.runs.checks import choice, fields, items, mapping, shown, text, whole
from app.runs.lane_records import lane_records, lane_settings
from app.runs.run import KIND, SCHEMA, Asked, Run, RunLane, token_ids
from mars.records import FinishReason
from mars.text import printable

MAX_BYTES = 3_000_000
MAX_LANES = 4
MAX_PROMPT = 100_000
MAX_TEXT = 200_000
MAX_PIECE = 1_000
MAX_NAME = 200
MAX_NOTE = 1_000
MAX_TOKEN_ID = 2**31 - 1
MAX_TOKENS = 1_000_000
MAX_STOPS = 64
LONGEST_NUMBER = 40
LONGEST_REASON = 300

_IDENTITY = re.compile(r"[0-9A-Za-z_-]{1,64}")
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_LANE = (
    "key title checkpoint decoder settings prompt_tokens text written right finish_reason stop_ids pieces records"
).split()


class RunFileError(ValueError):
    """A run file that is refused; the message is one sentence for the person."""

    def __init__(self, reason: str) -> None:
        reason = printable(" ".join(reason.split())).rstrip(".")
        if len(reason) > LONGEST_REASON:
            reason = reason[: LONGEST_REASON - 1] + "…"
        super().__init__(f"This file cannot be opened as a run: {reason}.")


def read(source: str | bytes) -> Run:
    """The run that a document holds.

    Raises:
        RunFileError: one sentence that says what is wrong and what is allowed.
    """
    try:
        return _read(source)
    except ValueError as error:
        raise RunFileError(str(error)) from None
    except RecursionError:
        raise RunFileError("its lists lie too deep in each other, and a saved run needs ten levels") from None


def _read(source: str | bytes) -> Run:
    size = len(source)
    if size > MAX_BYTES:
        raise ValueError(f"it has {size:,} bytes, and at most {MAX_BYTES:,} are read")
    data = mapping(_parse(source), "the document")
    if data.get("kind") != KIND:
        raise ValueError(f"its kind must be “{KIND}”, got {shown(data.get('kind'))}")
    whole(data.get("schema"), "its schema", SCHEMA, SCHEMA)
    found = fields(data, "the document", {"schema", "kind", "id", "date", "question", "lanes"}, {"title", "note"})
    lanes = items(found["lanes"], "lanes", MAX_LANES, fewest=1)
    run = Run(
        identity=_name(found["id"], "id", _IDENTITY, "1 to 64 letters, digits, - or _"),
        date=_date(found["date"]),
        title=text(found.get("title", ""), "title", MAX_NAME),
        note=text(found.get("note", ""), "note", MAX_NOTE),
        question=_question(found["question"]),
        lanes=tuple(_lane(lane, f"lanes[{place}]") for place, lane in enumerate(lanes)),
    )
    keys = [lane.key for lane in run.lanes]
    if len(set(keys)) < len(keys):
        raise ValueError(f"each lane needs a key of its own, got {shown(keys)}")
    return run


def _parse(source: str | bytes) -> Any:
    try:
        content = source if isinstance(source, str) else source.decode("utf-8-sig")
        return json.loads(content, parse_constant=_constant, parse_int=_integer, parse_float=_float)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text, as a saved run is") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} in line {error.lineno}), as a saved run is") from None


def _constant(name: str) -> Any:
    raise ValueError(f"numbers must be finite, got {name}")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"numbers must have at most {LONGEST_NUMBER} digits, got {len(digits)}")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"numbers must have at most {LONGEST_NUMBER} digits, got {len(digits)}")
    return float(digits)


def _name(value: object, name: str, pattern: re.Pattern[str], allowed: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")
    return value


def _date(value: object) -> str:
    date = text(value, "date", 40)
    try:
        datetime.fromisoformat(date)
    except ValueError:
        raise ValueError(f"date must be in ISO 8601, as 2026-01-31T12:00:00+00:00, got {shown(date)}") from None
    return date


def _question(value: object) -> Asked:
    found = fields(value, "question", {"prompt", "max_new_tokens", "problem"})
    prompt = text(found["prompt"], "question.prompt", MAX_PROMPT)
    limit = whole(found["max_new_tokens"], "question.max_new_tokens", 1, MAX_TOKENS)
    if found["problem"] is None:
        return Asked(prompt=prompt, max_new_tokens=limit)
    problem = fields(found["problem"], "question.problem", {"task", "seed"})
    task = text(problem["task"], "question.problem.task", MAX_NAME, shortest=1)
    seed = whole(problem["seed"], "question.problem.seed", 0, 10**9)
    return Asked(prompt=prompt, max_new_tokens=limit, task=task, seed=seed)


def _lane(value: object, name: str) -> RunLane:
    found = fields(value, name, _LANE)
    lower = "1 to 32 lower-case letters, digits, - or _, a letter first"
    settings = lane_settings(found["settings"], f"{name}.settings")
    pieces = _pieces(found["pieces"], f"{name}.pieces")
    records = lane_records(found["records"], settings, f"{name}.records")
    unnamed = next((token for token in token_ids(records) if token not in pieces), None)
    if unnamed is not None:
        raise ValueError(f"{name}.pieces must have the text of every token in the records, but lacks {unnamed}")
    accepted = sum(record.rows[0].accepted for record in records)
    written = items(found["written"], f"{name}.written", MAX_TOKENS)
    if len(written) != accepted:
        raise ValueError(f"{name}.written must have one entry for each of {accepted} accepted tokens")
    return RunLane(
        key=_name(found["key"], f"{name}.key", _KEY, lower),
        title=text(found["title"], f"{name}.title", MAX_NAME, shortest=1),
        checkpoint=text(found["checkpoint"], f"{name}.checkpoint", MAX_NAME),
        decoder=_name(found["decoder"], f"{name}.decoder", _KEY, lower),
        settings=settings,
        prompt_tokens=whole(found["prompt_tokens"], f"{name}.prompt_tokens", 1, MAX_TOKENS),
        text=text(found["text"], f"{name}.text", MAX_TEXT),
        written=tuple(text(part, f"{name}.written", MAX_PIECE) for part in written),
        right=choice(found["right"], f"{name}.right", (True, False, None)),
        finish_reason=choice(found["finish_reason"], f"{name}.finish_reason", get_args(FinishReason)),
        stop_ids=tuple(
            whole(token, f"{name}.stop_ids", 0, MAX_TOKEN_ID)
            for token in items(found["stop_ids"], f"{name}.stop_ids", MAX_STOPS)
        ),
        pieces=pieces,
        records=records,
    )


def _pieces(value: object, name: str) -> dict[int, str]:
    pieces = {}
    for token, piece in mapping(value, name).items():
        if not token.isdecimal() or not token.isascii() or len(token) > 10 or int(token) > MAX_TOKEN_ID:
            raise ValueError(f"{name} must have token ids as keys, got {shown(token)}")
        pieces[int(token)] = text(piece, name, MAX_PIECE)
    return pieces

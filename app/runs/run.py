"""A finished run: the question, and for each lane its text and every forward pass. No torch here.

The dataclasses are the document that is saved, opened, kept by the browser and embedded in replays:

    {"schema": 1, "kind": "mars-lens-run", "id", "date", "title", "note", "question", "lanes": [...]}

Whatever comes from outside is read by `read`, which checks all of it; the first error of a list ends it, so that a
refusal is cheap.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, FailFast, Field

from mars.config import MAX_ALTERNATIVES, MAX_BLOCK_SIZE, MAX_DRAFT_TOKENS, DecodingSettings, check_threshold
from mars.metrics import COUNTED, GAINING
from mars.records import ROUNDING, FinishReason, ForwardPass, RowPass, TokenId
from mars.schema import Strict, must_be, parse, prefixing_errors, shown
from mars.text import printable

REPLAYS = Path(__file__).parents[2] / "assets" / "replays"
SCHEMA: Final = 1
KIND: Final = "mars-lens-run"
MAX_BYTES = 3_000_000
MAX_RECORDS = 4_096
MAX_PROPOSALS = 1 + 2 * max(MAX_BLOCK_SIZE, MAX_DRAFT_TOKENS)
MAX_TOKENS = 1_000_000
LONGEST_PASS_SECONDS = 86_400.0
HIGHEST_ENTROPY = 100.0
LONGEST_REASON = 300
MAX_TURNS = 64
_log = logging.getLogger(__name__)
_ISO = "in ISO 8601, as 2026-01-31T12:00:00+00:00"

Name = Annotated[str, Field(min_length=1, max_length=200)]
Piece = Annotated[str, Field(max_length=1_000)]
Length = Annotated[int, Field(ge=1, le=MAX_TOKENS)]


def _matching(pattern: str, allowed: str) -> AfterValidator:
    return must_be(allowed, partial(re.fullmatch, pattern))


Key = Annotated[str, _matching(r"[a-z][a-z0-9_-]{0,31}", "1 to 32 lower-case letters, digits, - or _, a letter first")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemName(Strict):
    """A problem that the app can make again, with its answer."""

    task: Name
    seed: Annotated[int, Field(ge=0, le=10**9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion(Strict):
    """The question; `problem` is None if the answer is not known. Every lane went on from `answer_prefix`."""

    prompt: Annotated[str, Field(max_length=100_000)]
    max_new_tokens: Length
    problem: ProblemName | None = None
    answer_prefix: Annotated[str, Field(max_length=100_000)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Strict):
    """An earlier question of the conversation, with the answer of a lane."""

    prompt: Annotated[str, Field(max_length=100_000)]
    answer: Annotated[str, Field(max_length=200_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLane(Strict):
    """One lane: its checkpoint, decoder and settings, its text, and every forward pass.

    `prompt_tokens` is the length of the prompt for this checkpoint. `written` has the text that each accepted token
    added: a character of several tokens comes with the last of them. `pieces` has the text of every proposed or
    alternative token alone; `stop_ids` are the tokens that end a turn. `earlier` has the turns before the question,
    with the answers of this lane.
    """

    key: Key
    title: Name
    checkpoint: Annotated[str, Field(max_length=200)]
    decoder: Key
    settings: DecodingSettings
    prompt_tokens: Length
    text: Annotated[str, Field(max_length=200_000)]
    written: Annotated[tuple[Piece, ...], Field(max_length=MAX_TOKENS), FailFast()]
    right: bool | None
    finish_reason: FinishReason
    stop_ids: Annotated[tuple[TokenId, ...], Field(max_length=64), FailFast()]
    pieces: Mapping[TokenId, Piece]
    records: Annotated[tuple[ForwardPass, ...], Field(max_length=MAX_RECORDS), FailFast()]
    earlier: Annotated[tuple[Turn, ...], Field(max_length=MAX_TURNS), FailFast()] = ()


def _check_lane(lane: RunLane) -> RunLane:
    """Check that the parts of a lane fit: the accepted prefixes follow each other from the first token on."""
    if not lane.records:
        raise ValueError("records must have at least 1 entry, got 0")
    written, last = 0, -1
    for place, record in enumerate(lane.records):
        where = f"records[{place}]"
        row = _check_record(record, lane.settings, where)
        if record.index <= last:
            raise ValueError(f"{where}.index must be more than the one before, got {record.index}")
        if record.phase in COUNTED and row.start != written:
            raise ValueError(f"{where}.start must be {written}, where the tokens before end, got {row.start}")
        written, last = written + row.accepted, record.index
    limit = lane.settings.max_new_tokens
    if written > limit:
        raise ValueError(f"the records accept {written} tokens, and max_new_tokens allows {limit}")
    unnamed = next((token for token in token_ids(lane.records) if token not in lane.pieces), None)
    if unnamed is not None:
        raise ValueError(f"pieces must have the text of every token in the records, but lacks {unnamed}")
    if len(lane.written) != written:
        raise ValueError(f"written must have one entry for each of {written} accepted tokens, got {len(lane.written)}")
    return lane


def _check_record(record: ForwardPass, settings: DecodingSettings, name: str) -> RowPass:
    """The one row of this record of a lane."""
    if record.seconds > LONGEST_PASS_SECONDS or not 1 <= record.query_tokens <= MAX_TOKENS:
        raise ValueError(f"{name} must take at most a day and compute 1 to {MAX_TOKENS} positions")
    if len(record.rows) != 1:
        raise ValueError(f"{name}.rows must be the one row of this lane, got {len(record.rows)}")
    [row] = record.rows
    allowed = 1 <= row.accepted if record.phase in GAINING else record.phase in COUNTED or not row.accepted
    if not allowed:
        rule = "at least one token" if record.phase in GAINING else "nothing"
        raise ValueError(f"{name}: a {record.phase} pass must accept {rule}, got {row.accepted}")
    if len(row.proposals) > MAX_PROPOSALS:
        raise ValueError(f"{name}.proposals must have at most {MAX_PROPOSALS} entries, got {len(row.proposals)}")
    if row.trace and len(row.trace.ids) > record.query_tokens:
        raise ValueError(f"{name}.trace must have at most {record.query_tokens} columns, got {len(row.trace.ids)}")
    with prefixing_errors(f"{name}: "):
        check_threshold(row.threshold, settings.score)
    highest = HIGHEST_ENTROPY if settings.score == "entropy" else 1.0 + ROUNDING
    for proposal in row.proposals:
        if proposal.score > highest:
            raise ValueError(f"{name}: a {settings.score} must be at most {highest:g}, got {proposal.score}")
        if len(proposal.alternatives) > MAX_ALTERNATIVES:
            raise ValueError(f"{name}: a proposal must have at most {MAX_ALTERNATIVES} alternatives")
    return row


def _check_keys(lanes: tuple[RunLane, ...]) -> tuple[RunLane, ...]:
    if not lanes:
        raise ValueError("must have at least 1 entry, got 0")
    keys = [lane.key for lane in lanes]
    if len(set(keys)) < len(keys):
        raise ValueError(f"each lane needs a key of its own, got {shown(keys)}")
    return lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Strict):
    """A finished comparison, with all to look at it again; `title` and `note` say what a shipped one shows."""

    schema: Literal[1]
    kind: Literal["mars-lens-run"]
    id: Annotated[str, _matching(r"[0-9A-Za-z_-]{1,64}", "1 to 64 letters, digits, - or _")]
    date: Annotated[str, Field(max_length=40), must_be(_ISO, datetime.fromisoformat)]
    title: Annotated[str, Field(max_length=200)] = ""
    note: Annotated[str, Field(max_length=1_000)] = ""
    question: RunQuestion
    lanes: Annotated[
        tuple[Annotated[RunLane, AfterValidator(_check_lane)], ...],
        Field(max_length=4),
        FailFast(),
        AfterValidator(_check_keys),
    ]


class RunFileError(ValueError):
    """A run file that is refused; the message is one sentence for the person."""

    def __init__(self, reason: str) -> None:
        reason = printable(" ".join(reason.split())).rstrip(".")
        if len(reason) > LONGEST_REASON:
            reason = reason[: LONGEST_REASON - 1] + "…"
        super().__init__(f"This file cannot be opened as a run: {reason}.")


def read(source: str | bytes) -> Run:
    """Read and check the run in a document; RunFileError with one sentence if it is none."""
    if len(source) > MAX_BYTES:
        raise RunFileError(f"it has {len(source):,} bytes, and at most {MAX_BYTES:,} are read")
    try:
        text = source if isinstance(source, str) else source.decode("utf-8-sig")
        run: Run = parse(Run, text)
    except UnicodeError:
        raise RunFileError("it is not UTF-8 text, as a saved run is") from None
    except ValueError as error:
        raise RunFileError(str(error)) from None
    return run


def token_ids(records: tuple[ForwardPass, ...]) -> list[int]:
    """Every token id that these records name, but those of masks, ascending."""
    found = set()
    for record in records:
        for row in record.rows:
            for proposal in row.proposals:
                found.add(proposal.token_id)
                found.update(token for token, _ in proposal.alternatives)
            for span in row.trace.spans if row.trace else ():
                found.update(span.ids if span.reads not in ("mask", "absent") else ())
    return sorted(found)


@cache
def shipped(folder: Path = REPLAYS) -> dict[str, Run]:
    """The runs of a folder by file name without its ending, in the order of the names; broken files are left out."""
    runs = {}
    for path in sorted(folder.glob("*.json")):
        try:
            runs[path.stem] = read(path.read_bytes())
        except (OSError, RunFileError) as error:
            _log.warning("%s is not offered. %s", path.name, error)
    return runs

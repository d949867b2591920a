"""The one stream that everything consumes: a decoder yields one `ForwardPass` per call of the model.

No torch here: saved runs are read, drawn and measured without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Source = Literal["clean", "mask", "draft", "random"]
Phase = Literal["prefill", "decode", "verify", "denoise", "commit", "draft"]
FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the model proposes at one position of the window.

    `score` is the acceptance score (probability, margin or entropy). `source` says what the position read: a real
    prefix token, a mask, a draft token, or Jacobi noise. `alternatives` are the top-k (token id, probability) pairs.
    """

    token_id: int
    score: float
    source: Source
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RowPass:
    """One sequence within one forward pass.

    `start` is the position in the response of `proposals[0]`; `accepted` the length of the accepted prefix, 0 in
    prefill, commit and draft passes and in denoise passes that leave masks, never in others; `threshold` the one in
    force in this very pass (None: one-token mode).
    """

    row: int
    start: int
    proposals: tuple[Proposal, ...]
    accepted: int
    threshold: float | None
    finish_reason: FinishReason | None = None

    @property
    def accepted_ids(self) -> tuple[int, ...]:
        """Token ids of the accepted prefix."""
        return tuple(proposal.token_id for proposal in self.proposals[: self.accepted])


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One call of the model.

    Phases: "prefill" reads prompts; "decode" and "verify" propose and accept; "denoise" fills masks of a block, which
    is accepted once it is full; "commit" caches what was accepted; "draft" is a pass of another, smaller model.
    `seconds` is the device time of this pass, synchronised, without drawing or sending. `query_tokens` counts the
    positions forwarded over all rows, masks and drafts included.
    """

    index: int
    phase: Phase
    seconds: float
    query_tokens: int
    rows: tuple[RowPass, ...]


def to_json(record: ForwardPass) -> str:
    """One record as one line of JSON."""
    return json.dumps(asdict(record), separators=(",", ":"), allow_nan=False)


def from_json(line: str) -> ForwardPass:
    """Parse one line written by `to_json`.

    Raises:
        ValueError: names the field that is missing, misspelt or of the wrong kind.
    """
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"record is not JSON: {error}") from error
    return from_object(data)


def from_object(data: Any) -> ForwardPass:
    """The record that a parsed JSON object holds, where records are part of a larger document.

    Raises:
        ValueError: names the field that is missing, misspelt or of the wrong kind.
    """
    return _forward_pass(data)


def read_jsonl(lines: Iterable[str]) -> Iterator[ForwardPass]:
    """Records of a file written one JSON object a line; blank lines are skipped.

    Raises:
        ValueError: names the line and the field at fault.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield from_json(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error


def _forward_pass(data: Any) -> ForwardPass:
    fields = _fields(data, "record", {"index", "phase", "seconds", "query_tokens", "rows"})
    return ForwardPass(
        index=_integer(fields["index"], "index"),
        phase=_choice(fields["phase"], "phase", get_args(Phase)),
        seconds=_number(fields["seconds"], "seconds"),
        query_tokens=_integer(fields["query_tokens"], "query_tokens"),
        rows=tuple(_row_pass(row) for row in _list(fields["rows"], "rows")),
    )


def _row_pass(data: Any) -> RowPass:
    fields = _fields(data, "row", {"row", "start", "proposals", "accepted", "threshold", "finish_reason"})
    proposals = tuple(_proposal(item) for item in _list(fields["proposals"], "proposals"))
    accepted = _integer(fields["accepted"], "accepted")
    if accepted > len(proposals):
        raise ValueError(f"accepted must be <= the number of proposals, got {accepted} of {len(proposals)}")
    threshold, reason = fields["threshold"], fields["finish_reason"]
    return RowPass(
        row=_integer(fields["row"], "row"),
        start=_integer(fields["start"], "start"),
        proposals=proposals,
        accepted=accepted,
        threshold=None if threshold is None else _number(threshold, "threshold"),
        finish_reason=None if reason is None else _choice(reason, "finish_reason", get_args(FinishReason)),
    )


def _proposal(data: Any) -> Proposal:
    fields = _fields(data, "proposal", {"token_id", "score", "source", "alternatives"})
    pairs = []
    for pair in _list(fields["alternatives"], "alternatives"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("alternatives must be [token_id, probability] pairs")
        pairs.append((_integer(pair[0], "alternatives"), _number(pair[1], "alternatives")))
    return Proposal(
        token_id=_integer(fields["token_id"], "token_id"),
        score=_number(fields["score"], "score"),
        source=_choice(fields["source"], "source", get_args(Source)),
        alternatives=tuple(pairs),
    )


def _fields(data: Any, what: str, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{what} must be an object, got {type(data).__name__}")
    if set(data) != names:
        missing, extra = sorted(names - set(data)), sorted(set(data) - names)
        raise ValueError(f"{what} must have the fields {sorted(names)}; missing {missing}, unknown {extra}")
    return data


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {type(value).__name__}")
    return value


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number >= 0, got {value!r}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _choice(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value

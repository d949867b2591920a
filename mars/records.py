"""The one stream that everything consumes: a decoder yields one `ForwardPass` per call of the model.

No torch here: saved runs are read, drawn and measured without it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, FailFast, Field

from mars.schema import Strict, checked, parse

Source = Literal["clean", "mask", "draft", "copy", "random"]
Reads = Literal["clean", "mask", "draft", "copy", "random", "absent"]
"""The input of a column: as `Source`, or the place of a draft that was not there."""
Reason = Literal[
    "first",  # it read only real tokens: the autoregressive token, always accepted
    "right",  # accepted: all drafts that it read were verified
    "met",  # accepted or filled: its score meets the threshold
    "rule",  # the decoder's own rule decided, against what the threshold says of its score
    "below",  # refused: its score does not meet the threshold
    "behind",  # behind a refused one
    "wrong draft",  # refused: it read a draft that verification refused
    "ended",  # behind the end of the sequence
    "kept",  # a draft, which the next pass verifies
    "unsure",  # not sure enough to be a draft
    "surest",  # filled: the surest of the masks
    "filled",  # filled by an earlier pass
    "open",  # still a mask
]
"""Why a proposal was accepted or not. The last three are of runs of earlier versions; "first" needs no score."""
Phase = Literal["prefill", "decode", "verify", "denoise", "commit", "draft"]
FinishReason = Literal["stop", "length", "cancelled"]

MAX_TOKEN_ID = 2**31 - 1
ROUNDING = 1e-6  # a probability in float32 may exceed 1 by this much
TokenId = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]
Count = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]
Probability = Annotated[float, Field(ge=0, le=1 + ROUNDING)]


@dataclass(frozen=True, slots=True)
class Proposal(Strict):
    """A token that the model proposes at one position of the window.

    `score` is the acceptance score: probability, margin, entropy, or for a mask the calibrated chance. `source` says
    what the position read: a real prefix token, a mask, a draft token, a draft that was copied from further up in the
    text (in old runs also from phrases that the model often wrote), or Jacobi noise.
    `alternatives` are the top-k (token id, probability) pairs.
    """

    token_id: TokenId
    score: Annotated[float, Field(ge=-ROUNDING)]
    source: Source
    alternatives: Annotated[tuple[tuple[TokenId, Probability], ...], FailFast()] = ()


@dataclass(frozen=True, slots=True)
class Span(Strict):
    """Columns of a pass that read the same kind of thing and stand one behind the other, with the ids that they read.

    `after` is the column that the first of them stands behind, None where it stands behind the cached tokens alone.
    """

    reads: Reads
    ids: Annotated[tuple[TokenId, ...], FailFast()]
    after: Count | None


@dataclass(frozen=True, slots=True)
class Trace(Strict):
    """The work of a pass for one row, column by column, as the model was given it.

    Columns are counted over the `spans`. One sees the `cached` tokens before the window, what the column that it stands
    behind sees, and itself; with `block`, which is a number of positions, it sees all columns of its own block and of
    those before. `columns` has for each proposal the column that it was read off, `reasons` why it was accepted or not.
    """

    cached: Count
    spans: Annotated[tuple[Span, ...], FailFast()]
    columns: Annotated[tuple[Count, ...], FailFast()]
    reasons: Annotated[tuple[Reason, ...], FailFast()]
    block: Count = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """The input of each column."""
        return tuple(token_id for span in self.spans for token_id in span.ids)

    @property
    def reads(self) -> tuple[Reads, ...]:
        """The kind of input of each column."""
        return tuple(span.reads for span in self.spans for _ in span.ids)

    @property
    def after(self) -> tuple[int | None, ...]:
        """The column that each one stands behind."""
        found: list[int | None] = []
        for span in self.spans:
            found += [span.after, *range(len(found), len(found) + len(span.ids) - 1)]
        return tuple(found)

    @property
    def positions(self) -> tuple[int, ...]:
        """The position of each column in the sequence, 0 the first token of the prompt."""
        found: list[int] = []
        for other in self.after:
            found.append(self.cached if other is None else found[other] + 1)
        return tuple(found)

    def sees(self, column: int) -> frozenset[int]:
        """The columns that this one sees."""
        positions = self.positions
        if self.block:
            mine = positions[column] // self.block
            return frozenset(number for number, other in enumerate(positions) if other // self.block <= mine)
        after, found = self.after, {column}
        while (other := after[column]) is not None:
            found.add(column := other)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class RowPass(Strict):
    """One sequence within one forward pass.

    `start` is the position in the response of `proposals[0]`; `accepted` the length of the accepted prefix, 0 in
    prefill, commit and draft passes and in denoise passes that leave masks, never in others; `threshold` the one in
    force in this very pass (None: one-token mode). `trace` says what the pass did, None unless asked for
    (`mars.control.Control`).
    """

    row: Count
    start: Count
    proposals: Annotated[tuple[Proposal, ...], FailFast()]
    accepted: Count
    threshold: float | None
    finish_reason: FinishReason | None = None
    trace: Trace | None = None

    @property
    def masks(self) -> int:
        """The masks that the pass spent on this row; without a trace, those whose proposals are recorded."""
        read = [proposal.source for proposal in self.proposals] if self.trace is None else self.trace.reads
        return sum(source == "mask" for source in read)

    @property
    def accepted_ids(self) -> tuple[int, ...]:
        """Token ids of the accepted prefix."""
        return tuple(proposal.token_id for proposal in self.proposals[: self.accepted])


def _check_row(row: RowPass) -> RowPass:
    if row.accepted > len(row.proposals):
        raise ValueError(f"accepted must be <= the number of proposals, got {row.accepted} of {len(row.proposals)}")
    if row.trace is not None:
        _check_trace(row.trace, len(row.proposals))
    return row


def _check_trace(trace: Trace, proposals: int) -> None:
    before = 0
    if not trace.spans or not all(span.ids for span in trace.spans):
        raise ValueError("trace: spans must be at least one, each with at least one of ids")
    for span in trace.spans:
        if span.after is not None and span.after >= before:
            raise ValueError(
                f"trace: after must be a column before its span, which is column {before}, got {span.after}"
            )
        before += len(span.ids)
    if max(trace.columns, default=0) >= before:
        raise ValueError(f"trace: columns must be less than {before}, which there are, got {max(trace.columns)}")
    if len(trace.columns) != proposals or len(trace.reasons) != proposals:
        raise ValueError(
            f"trace must have a column and a reason for each of {proposals} proposals, got {len(trace.columns)} and "
            f"{len(trace.reasons)}"
        )


@dataclass(frozen=True, slots=True)
class ForwardPass(Strict):
    """One call of the model.

    Phases: "prefill" reads prompts; "decode" and "verify" propose and accept; "denoise" fills masks of a block, which
    is accepted once it is full; "commit" caches what was accepted; "draft" is a pass of another, smaller model.
    `seconds` is the device time of this pass, synchronised, without drawing or sending. `query_tokens` counts the
    positions forwarded over all rows, masks and drafts included.
    """

    index: Count
    phase: Phase
    seconds: Annotated[float, Field(ge=0)]
    query_tokens: Count
    rows: Annotated[tuple[Annotated[RowPass, AfterValidator(_check_row)], ...], FailFast()]


def to_json(record: ForwardPass) -> str:
    """One record as one line of JSON."""
    return json.dumps(asdict(record), separators=(",", ":"), allow_nan=False)


def from_json(line: str) -> ForwardPass:
    """Parse one line written by `to_json`; ValueError names the field that is missing, misspelt or wrong."""
    record: ForwardPass = parse(ForwardPass, line, "record")
    return record


def from_object(data: Any) -> ForwardPass:
    """The record that a parsed JSON object holds.

    ValueError names the field that is missing, misspelt or of the wrong kind.
    """
    record: ForwardPass = checked(ForwardPass, data, "record")
    return record

"""One lane of a comparison: folds the records of its decoder into text, counters, messages and the finished run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from app.compare import stream
from app.runs.run import KIND, SCHEMA, Run, RunLane, RunQuestion, Turn, token_ids
from mars.config import DecodingSettings
from mars.decoders import BASELINE
from mars.metrics import Tally, output_ids
from mars.records import FinishReason, ForwardPass, Proposal, Source
from mars.text import TextPieces

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

MOST_ALTERNATIVES = 5
KINDS: dict[Source, stream.Kind] = {
    "clean": "clean",
    "mask": "mask",
    "draft": "draft",
    "copy": "draft",
    "random": "draft",
}
"""The kind of an accepted token by what its position read; copies and Jacobi's guesses are drafts like others."""


class Pieces(dict[int, str]):
    """The text of each token alone, looked up once; a token without text gives its name, an unknown id nothing."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def __missing__(self, token_id: int) -> str:
        text = self._checkpoint.decode([token_id])
        if not text and token_id < len(self._checkpoint.tokenizer):
            text = str(self._checkpoint.tokenizer.decode([token_id], skip_special_tokens=False))
        self[token_id] = text
        return text


@dataclass(slots=True)
class Lane:
    """The output of one checkpoint with one decoder; `key` names the lane everywhere.

    `settings` and `prompt_tokens` are those of the run, `earlier` the turns before its question; `written` has the text
    that each accepted token added. `shared` is true if other runs took part in its passes: then its seconds count
    their work too.
    """

    key: str
    title: str
    decoder: str
    checkpoint: Checkpoint
    settings: DecodingSettings = field(default_factory=DecodingSettings)
    prompt_tokens: int = 0
    records: list[ForwardPass] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    right: bool | None = None
    shared: bool = False
    earlier: tuple[Turn, ...] = ()
    tally: Tally = field(default_factory=Tally)
    pieces: Pieces = field(init=False)
    _text: TextPieces = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.checkpoint)
        self._text = TextPieces(self.checkpoint.decode)

    @property
    def text(self) -> str:
        """The text so far, without special tokens."""
        return self.checkpoint.decode(output_ids(self.records))

    def counts(self) -> stream.Counts:
        """The counters as the page shows them."""
        return stream.counts(self.tally, shared=self.shared)

    def add(self, record: ForwardPass) -> tuple[stream.Pass | stream.Counters, list[str]]:
        """Add one pass; returns the message that draws it and the text of each accepted token."""
        self.records.append(record)
        self.tally.add(record)
        row = record.rows[0]
        self.finish_reason = row.finish_reason or self.finish_reason
        if not row.accepted:
            return stream.Counters(kind="counts", lane=self.key, counts=self.counts()), []
        texts = [self._text.add(token_id) for token_id in row.accepted_ids]
        self.written += texts
        stop_ids = self.checkpoint.engine.stop_token_ids
        message = pass_message(
            self.key, record, texts, self.counts(), self.tally.passes, self.pieces, stop_ids, MOST_ALTERNATIVES
        )
        return message, texts

    def end(self) -> stream.End:
        """The message that closes the lane; if its decoder gave no reason to end, it was cancelled."""
        self.finish_reason = self.finish_reason or "cancelled"
        tail = self._text.flush()
        if tail:
            self.written[-1] += tail
        return stream.lane_end(self.key, self.finish_reason, tail)


def pass_message(
    key: str,
    record: ForwardPass,
    texts: Sequence[str],
    counts: stream.Counts,
    number: int,
    pieces: Mapping[int, str],
    stop_ids: Collection[int],
    alternatives: int = 0,
) -> stream.Pass:
    """The message that draws pass `number` of a lane.

    `texts` is what each accepted token added, `pieces` the text of each token alone; `alternatives` is the most that a
    token comes with.
    """
    row = record.rows[0]

    def token(text: str, proposal: Proposal) -> stream.Token:
        found = [(pieces[other], round(probability, 4)) for other, probability in proposal.alternatives[:alternatives]]
        ends = proposal.token_id in stop_ids
        return text, round(proposal.score, 4), proposal.source, ends, KINDS[proposal.source], found

    return stream.forward_pass(
        key,
        number,
        record,
        tokens=[token(text, proposal) for text, proposal in zip(texts, row.proposals, strict=False)],
        ghosts=[(pieces[one.token_id], round(one.score, 4), one.source) for one in row.proposals[row.accepted :]],
        counts=counts,
    )


def keep(identity: str, question: RunQuestion, lanes: Sequence[Lane], *, title: str = "", note: str = "") -> Run:
    """The finished run of these lanes; a lane without a pass is left out."""
    return Run(
        schema=SCHEMA,
        kind=KIND,
        id=identity,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        question=question,
        lanes=tuple(_kept(lane) for lane in lanes if lane.records),
        title=title,
        note=note,
    )


def _kept(lane: Lane) -> RunLane:
    records = tuple(lane.records)
    return RunLane(
        key=lane.key,
        title=lane.title,
        checkpoint=lane.checkpoint.name,
        decoder=lane.decoder,
        settings=lane.settings,
        prompt_tokens=lane.prompt_tokens,
        text=lane.text,
        written=tuple(lane.written),
        right=lane.right,
        finish_reason=lane.finish_reason or "cancelled",
        stop_ids=tuple(sorted(lane.checkpoint.engine.stop_token_ids)),
        pieces={token: lane.pieces[token] for token in token_ids(records)},
        records=records,
        earlier=lane.earlier,
    )


class _Decodes(Protocol):
    @property
    def decoder(self) -> str: ...


AnyLane = TypeVar("AnyLane", bound=_Decodes)


def baseline_of(lanes: Sequence[AnyLane]) -> AnyLane:
    """The lane that the others are compared with: the first autoregressive one, else the first."""
    return next((lane for lane in lanes if lane.decoder == BASELINE), lanes[0])

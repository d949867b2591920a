"""One lane of a comparison: folds the records of its decoder into text, counters and messages for the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app import stream
from mars.config import DecodingSettings
from mars.metrics import Tally, output_ids
from mars.records import FinishReason, ForwardPass
from mars.text import TextPieces

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets a lane apart before it has a checkpoint."""

    key: str
    title: str
    decoder: str
    needs_masks: bool
    hint: str


KINDS = (
    Kind("ar", "AR", "autoregressive", False, "One token per forward pass."),
    Kind("mars", "MARS", "sliding_window", True, "Several tokens per forward pass, as many as are sure enough."),
)


@dataclass(slots=True)
class Lane:
    """What one checkpoint writes with one decoder; `key` names the lane everywhere.

    `settings` and `prompt_tokens` are those of the run; `written` is what each accepted token added to the text;
    `shared` says whether other runs took part in its passes, so that its seconds are also theirs.
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
    tally: Tally = field(default_factory=Tally)
    _pieces: TextPieces = field(init=False)

    def __post_init__(self) -> None:
        self._pieces = TextPieces(self.checkpoint.decode)

    @property
    def text(self) -> str:
        """The text so far, without special tokens."""
        return self.checkpoint.decode(output_ids(self.records))

    def counts(self) -> stream.Message:
        """The counters as the page shows them."""
        return {
            "tokens": self.tally.tokens,
            "passes": self.tally.passes,
            "tokensPerForward": round(self.tally.tokens_per_forward, 4),
            "seconds": round(self.tally.seconds, 5),
            "tokensPerSecond": round(self.tally.tokens_per_second, 2),
            "shared": self.shared,
        }

    def add(self, record: ForwardPass) -> tuple[stream.Message, list[str]]:
        """Take in one pass; the message that draws it and the text of each accepted token."""
        self.records.append(record)
        self.tally.add(record)
        row = record.rows[0]
        self.finish_reason = row.finish_reason or self.finish_reason
        if not row.accepted:
            return stream.counters(self.key, self.counts()), []
        pieces = [self._pieces.add(token_id) for token_id in row.accepted_ids]
        self.written += pieces
        stops = self.checkpoint.engine.stop_token_ids
        return stream.forward_pass(self.key, self.tally.passes, record, pieces, stops, self.counts()), pieces

    def end(self) -> stream.Message:
        """The message that closes the lane; a decoder that just stopped yielding was cancelled."""
        self.finish_reason = self.finish_reason or "cancelled"
        tail = self._pieces.flush()
        if tail:
            self.written[-1] += tail
        return stream.lane_end(self.key, self.finish_reason, tail)

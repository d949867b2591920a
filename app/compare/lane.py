"""One lane of a comparison: folds the records of its decoder into text, counters, messages and the finished run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from app.compare import stream
from app.runs.run import KIND, SCHEMA, ProblemName, Run, RunLane, RunQuestion, Turn, token_ids
from mars.config import DecodingSettings
from mars.decoders import BASELINE
from mars.metrics import Tally, output_ids
from mars.records import FinishReason, ForwardPass
from mars.text import TextPieces
from mars_tasks import Problem

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

MOST_ALTERNATIVES = 5
AnyLane = TypeVar("AnyLane", bound=Any)
"""Whatever has a `decoder`: a live lane, one of a finished run, one of a score board."""


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
    that each accepted token added. `shared`: its seconds count the work of other runs too (`stream.Counts`).
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

    def add(self, record: ForwardPass) -> tuple[stream.Pass | stream.Counters, list[str]]:
        """Add one pass; returns the message that draws it and the text of each accepted token."""
        self.records.append(record)
        self.tally.add(record)
        row, counts = record.rows[0], stream.counts(self.tally, shared=self.shared)
        self.finish_reason = row.finish_reason or self.finish_reason
        if not row.accepted:
            return stream.Counters(kind="counts", lane=self.key, counts=counts), []
        texts = [self._text.add(token_id) for token_id in row.accepted_ids]
        self.written += texts
        message = stream.forward_pass(
            self.key,
            self.tally.passes,
            record,
            texts=texts,
            pieces=self.pieces,
            stop_ids=self.checkpoint.engine.stop_token_ids,
            counts=counts,
            alternatives=MOST_ALTERNATIVES,
        )
        return message, texts

    def speed_over(self, other: Lane) -> float:
        """The time in which the other would write as many tokens, at its pace behind its prompt, ÷ that of this one."""
        reading = sum(record.seconds for record in other.records if record.phase == "prefill")
        pace = (other.tally.seconds - reading) / other.tally.tokens
        return (reading + pace * self.tally.tokens) / self.tally.seconds

    def end(self) -> stream.End:
        """The message that closes the lane; if its decoder gave no reason to end, it was cancelled."""
        self.finish_reason = self.finish_reason or "cancelled"
        tail = self._text.flush()
        if tail:
            self.written[-1] += tail
        return stream.End(kind="end", lane=self.key, reason=self.finish_reason, tail=tail)


def keep(
    identity: str,
    prompt: str,
    max_new_tokens: int,
    lanes: Sequence[Lane],
    *,
    problem: Problem | None = None,
    answer_prefix: str = "",
    title: str = "",
    note: str = "",
) -> Run:
    """The finished run of these lanes on a prompt; a lane without a pass is left out."""
    name = ProblemName(task=problem.task, seed=problem.seed) if problem else None
    return Run(
        schema=SCHEMA,
        kind=KIND,
        id=identity,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        question=RunQuestion(prompt=prompt, max_new_tokens=max_new_tokens, problem=name, answer_prefix=answer_prefix),
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


def baseline_of(lanes: Sequence[AnyLane]) -> AnyLane:
    """The lane that the others are compared with: the first autoregressive one, else the first."""
    return next((lane for lane in lanes if lane.decoder == BASELINE), lanes[0])

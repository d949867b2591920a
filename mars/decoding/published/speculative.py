"""Speculative decoding with a draft model (arXiv 2604.07023, section 4.6).

The draft writes K tokens, the target reads them in one pass and accepts those that it would have written, and one of
its own. Noise of sampling belongs to the seed and the position (mars/sampling.py), so the target's tokens are those
without a draft; where the two distributions differ by d in total variation, a draft is accepted with a chance of at
least (1 - d) / (1 + d), by rejection sampling with 1 - d.

Shapes: R rows, K drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

import torch

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import autoregressive, sliding_window
from mars.decoding.base import Prompts, check
from mars.decoding.method import Batch, Method, Row
from mars.decoding.pair import Pair
from mars.decoding.published.lockstep import LockstepBatch, LockstepRow, Step, recorded, rows_of
from mars.engine import Engine
from mars.records import FinishReason, ForwardPass, Phase, Reads, RowPass


def speculative(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """The exact text of `autoregressive` on the target; K is `draft_tokens`.

    Passes of the draft are recorded with phase "draft" and accept nothing; both models read the prompts. The threshold
    acts on a MARS draft. If `control` stops while a row waits for the drafts of others, no record of the row says so.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context of both models, or an engine
            without a draft.
    """
    check(engine, prompts, settings)
    if not isinstance(engine, Pair):
        raise ValueError(
            "speculative needs a second, smaller checkpoint with the same vocabulary: give it with --draft DIR on the "
            "command line, or Pair(target, draft) in Python"
        )
    check(engine.draft, prompts, settings)
    target = Verify(drafts=settings.draft_tokens, score=settings.score, alternatives=settings.alternatives)
    methods = target, _draft_method(engine.draft, settings)
    control = control or Control(settings.threshold, settings.score)
    return recorded(_passes(engine, prompts, settings, control, *methods))


@dataclass(frozen=True, kw_only=True)
class Verify(Method):
    """The drafts that equal the target's tokens are accepted, and the target's token behind them. `drafts` is K."""

    phase: ClassVar[Phase] = "verify"

    drafts: int

    @property
    def lookahead(self) -> int:
        return self.drafts + 1

    def shape(self, batch: Batch) -> tuple[int, int]:
        return min(self.drafts, batch.room - 1), 0

    def reads(self, row: Row, drafts: int) -> Iterable[Reads]:
        return repeat("draft", _drafted(row))

    def drafts_of(self, batch: Batch) -> torch.Tensor:
        drafts_RK = super().drafts_of(batch)
        drafted_R1 = torch.tensor([_drafted(row) for row in batch.rows], device=drafts_RK.device)[:, None]
        absent_RK = torch.arange(drafts_RK.shape[1], device=drafts_RK.device) >= drafted_R1
        return drafts_RK.masked_fill(absent_RK, -1)


def _drafted(row: Row) -> int:
    """The number of drafts behind its last token."""
    return len(row.drafts) if isinstance(row, LockstepRow) else 0


def _draft_method(draft: Engine, settings: DecodingSettings) -> Method:
    if draft.mask_token_id is None:
        return autoregressive.method_of(draft, settings)
    return replace(sliding_window.method_of(draft, settings), masks=min(settings.masks, settings.draft_tokens - 1))


def _passes(
    pair: Pair, prompts: Prompts, settings: DecodingSettings, control: Control, verify: Verify, write: Method
) -> Iterator[ForwardPass]:
    most = settings.max_new_tokens
    capacity = max(map(len, prompts)) + most + verify.lookahead + write.lookahead
    target = LockstepBatch(pair, rows_of(prompts, verify, settings, control, limit=most), capacity)
    drafting = rows_of(prompts, write, settings, control, limit=0)
    draft = LockstepBatch(pair.draft, drafting, capacity, target.sequences.tokens_RK)
    yield from draft.read_prompts()
    yield from target.read_prompts()
    while target.rows and not control.stopped:
        for row, writing in zip(target.rows, draft.rows, strict=True):
            row.drafts = []
            # None that could not be accepted with a token after it.
            writing.limit = row.written + min(settings.draft_tokens, row.room - 1)
        draft.upload()
        while any(row.room for row in draft.rows) and not control.stopped:
            yield _draft(draft, target)
        if not control.stopped:
            yield _verify(target, draft)


def _draft(draft: LockstepBatch, target: LockstepBatch) -> ForwardPass:
    """One pass of the draft, for the rows that have not all their drafts yet."""
    step = draft.step()
    parts = []
    for place, (row, drafting) in enumerate(zip(target.rows, draft.rows, strict=True)):
        if drafting.room:
            parts.append(_add_drafts(draft, drafting, row, place, step))
    draft.upload()
    return ForwardPass(0, "draft", step.seconds, step.query_tokens, tuple(parts))


def _add_drafts(lockstep: LockstepBatch, drafting: LockstepRow, row: LockstepRow, place: int, step: Step) -> RowPass:
    """Give what the draft wrote to the row; one whose draft has stopped waits."""
    accepted, threshold, start = step.result.accepted[place], step.batch.thresholds[place], drafting.written
    sources = lockstep.method.sources(drafting, threshold, accepted)
    if row.drafts:
        sources = ("draft", *sources[1:])
    proposals = step.result.proposals(place, sources)
    traced = drafting.traced(lockstep.engine, step.batch, step.window, place, proposals, accepted, text=row.length)
    row.drafts += step.result.ids[place][:accepted]
    drafting.written += accepted
    drafting.pending = accepted
    if row.drafts[-1] in lockstep.engine.stop_token_ids:
        drafting.limit = drafting.written
    reason: FinishReason | None = "cancelled" if row.control.stopped else None
    return RowPass(row.number, start, proposals, 0, threshold, reason, traced)


def _verify(target: LockstepBatch, draft: LockstepBatch) -> ForwardPass:
    """One pass of the target, for all rows: both caches hold the drafts that were right, the target's also the root."""
    step = target.step()
    parts = []
    for place, (row, drafting) in enumerate(zip(target.rows, draft.rows, strict=True)):
        accepted = step.result.accepted[place]
        cached = min(drafting.length - drafting.pending, row.length + accepted - 1)
        part = row.take(target.engine, step.batch, step.window, place, step.result)
        row.pending = 1
        drafting.written = row.written
        drafting.pending = drafting.length - cached
        parts.append(part)
    for lockstep in (target, draft):
        lockstep.go_on(parts)
    return ForwardPass(0, "verify", step.seconds, step.query_tokens, tuple(parts))

"""Speculative decoding with a draft model (arXiv 2604.07023, section 4.6).

The draft writes K tokens, the target reads them in one pass and accepts those that it would have written, and one of
its own. Noise of sampling belongs to the seed and the position (mars/sampling.py), so the target's tokens are those
without a draft; where the two distributions differ by d in total variation, a draft is accepted with a chance of at
least (1 - d) / (1 + d), by rejection sampling with 1 - d. As in the paper, rows that have their drafts wait for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from mars.acceptance import HostAcceptResult
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import autoregressive, sliding_window
from mars.decoding.base import Prompts, check
from mars.decoding.method import Batch, Method, Row
from mars.decoding.pair import Pair
from mars.decoding.pool import Pool
from mars.decoding.prompt_lookup import PromptLookup
from mars.decoding.trees import Draft, Plan
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import FinishReason, ForwardPass, RowPass


def speculative(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """The exact text of `autoregressive` on the target; K is `draft_tokens`.

    Passes of the draft are recorded with phase "draft" and accept nothing; both models read the prompts. The threshold
    acts on a MARS draft. If `control` stops while a row waits for the drafts of others, no record of the row says so.
    ValueError at the call, for prompts that are empty or do not fit the context of both models, or an engine without a
    draft.
    """
    check(engine, prompts, settings)
    if not isinstance(engine, Pair):
        raise ValueError(
            "speculative needs a second, smaller checkpoint with the same vocabulary: give it with --draft DIR on the "
            "command line, or Pair(target, draft) in Python"
        )
    check(engine.draft, prompts, settings)
    write: Method = autoregressive.method_of(engine.draft, settings)
    if engine.draft.mask_token_id is not None:
        masks = min(settings.masks, settings.draft_tokens - 1)
        write = replace(sliding_window.method_of(engine.draft, settings), masks=masks, fits=False)
    return _passes(engine, write, prompts, settings, control or Control(settings.threshold, settings.score))


@dataclass(frozen=True, kw_only=True)
class Verify(PromptLookup):
    """As prompt lookup, but the drafts are those that another model left behind the row."""

    def plan(self, batch: Batch) -> None:
        for row in batch.rows:
            chain = tuple(Draft(token_id, 0.0) for token_id in row.proposed)
            row.plan = Plan(chain, (0,) * (len(chain) + 1))


@dataclass(slots=True, kw_only=True)
class DraftRow(Row):
    """A row of the draft: behind the text of `target` it writes at most `most` tokens, the drafts, and then rests."""

    target: Row
    most: int

    def rewind(self) -> None:
        """Go back to the text of the target, and write none that could not be accepted with a token after it."""
        cached = min(self.length - self.pending, self.target.length - 1)
        self.written, self.response = self.target.written, [*self.target.response]
        self.pending = self.length - cached
        self.limit = self.written + min(self.most, self.target.room - 1)
        self.resting = not self.room

    def take(self, engine: Engine, batch: Batch, window: Window, place: int, result: HostAcceptResult) -> RowPass:
        accepted, threshold, start = result.accepted[place], batch.thresholds[place], self.written
        sources = self.method.sources(self, threshold, accepted)
        if self.target.proposed:
            sources = ("draft", *sources[1:])
        proposals, ids = result.proposals(place, sources), result.ids[place][:accepted]
        traced = self.traced(engine, batch, window, place, proposals, accepted, text=self.target.length)
        self.target.proposed = (*self.target.proposed, *ids)
        self.response += ids
        self.written += accepted
        self.pending = accepted
        self.resting = not self.room or ids[-1] in engine.stop_token_ids
        reason: FinishReason | None = "cancelled" if self.control.stopped else None
        return RowPass(self.number, start, proposals, 0, threshold, reason, traced)


def _passes(
    pair: Pair, write: Method, prompts: Prompts, settings: DecodingSettings, control: Control
) -> Iterator[ForwardPass]:
    most = settings.draft_tokens
    verify = Verify(drafts=most, score=settings.score, alternatives=settings.alternatives)
    capacity = max(map(len, prompts)) + settings.max_new_tokens + verify.lookahead + write.lookahead
    target, draft = (Pool(one, len(prompts), capacity) for one in (pair, pair.draft))
    row_of = partial(Row, method=verify, settings=settings, control=control)
    draft_of = partial(DraftRow, method=write, settings=settings, control=control, most=most)
    rows: list[DraftRow] = []
    for number, prompt in enumerate(prompts):
        row = row_of(number=number, prompt=prompt)
        rows.append(draft_of(number=number, prompt=prompt, target=row))
        target.join(row)
        draft.join(rows[-1])
        rows[-1].rewind()
    index = 0
    while rows and not control.stopped:
        # Both read the prompts, the draft first; then it writes until all rows have their drafts.
        reads = any(row.unread for row in rows)
        drafts = reads or (not any(row.target.unread for row in rows) and not all(row.resting for row in rows))
        record = (draft if drafts else target).step()
        if record is None:
            return
        yield replace(record, index=index, phase="draft" if record.phase == "decode" else record.phase)
        index += 1
        if record.phase == "verify":
            ended = {part.row for part in record.rows if part.finish_reason is not None}
            draft.leave(ended)
            rows = [row for row in rows if row.number not in ended]
            for row in rows:
                row.rewind()
            draft.upload(tokens=most + 1)

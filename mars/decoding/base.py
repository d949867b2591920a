"""What the decoders share: the checks at the door, prefill, and the pass that accepts tokens from the left.

Every row has a cursor of its own: tokens before it are in the cache, `pending` are real tokens that are not. A pass
forwards `pending` and then masks; the last pending token and the masks each make a proposal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mars.acceptance import Judgement, judge
from mars.config import DecodingSettings
from mars.control import Control
from mars.engine import Engine, Rows
from mars.records import FinishReason, ForwardPass, Proposal, RowPass

Prompts = Sequence[Sequence[int]]


class Decoder(Protocol):
    """A decoder checks its arguments when called, then calls the model once for each record that is asked for."""

    def __call__(
        self, engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
    ) -> Iterator[ForwardPass]:
        """Records of decoding `prompts` (token ids, one list a row); `control` None means nobody intervenes."""


@dataclass(slots=True)
class Row:
    """An unfinished row: its number, the tokens before its cursor, those after, and the tokens written so far."""

    number: int
    cursor: int
    pending: list[int]
    written: int = 0

    def advance(self, tokens: Sequence[int]) -> None:
        """Put the cursor behind what was forwarded; `tokens`, just accepted, are the next pending ones."""
        self.cursor += len(self.pending)
        self.pending = list(tokens)
        self.written += len(tokens)


def check(engine: Engine, prompts: Prompts, settings: DecodingSettings) -> None:
    """Raise ValueError unless every prompt can be decoded under `settings`."""
    if not prompts:
        raise ValueError("prompts must hold at least one prompt, got none")
    limit = engine.context_length - settings.max_new_tokens
    if limit < 1:
        raise ValueError(
            f"max_new_tokens must be < the context length of {engine.context_length}, got {settings.max_new_tokens}"
        )
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompt {number} is empty: it needs at least one token")
        if len(prompt) > limit:
            fits = f"at most {limit} fit with max_new_tokens={settings.max_new_tokens}"
            raise ValueError(f"the prompt has {len(prompt)} tokens, {fits}")
        if not 0 <= min(prompt) <= max(prompt) < engine.vocab_size:
            wrong = min(prompt) if min(prompt) < 0 else max(prompt)
            raise ValueError(f"token ids must be between 0 and {engine.vocab_size - 1}, got {wrong}")


@dataclass(frozen=True, slots=True)
class Run:
    """What stays the same while rows are decoded; `masks` None is one-token mode whatever the control says."""

    engine: Engine
    rows: Rows
    settings: DecodingSettings
    control: Control
    masks: int | None

    @property
    def threshold(self) -> float | None:
        """The threshold in force now."""
        return None if self.masks is None else self.control.threshold


def slide(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control, masks: int | None
) -> Iterator[ForwardPass]:
    """Decode with `masks` masks after the last real token; None is one-token mode whatever the control says."""
    capacity = max(map(len, prompts)) + settings.max_new_tokens + (masks or 0)
    rows = engine.open(len(prompts), capacity, use_cache=settings.use_cache)
    run = Run(engine, rows, settings, control, masks)
    active = [Row(number, 0, list(prompt)) for number, prompt in enumerate(prompts)]
    index = 0
    if settings.use_cache and max(map(len, prompts)) > 1 and not control.stopped:
        yield _prefill(run, active)
        index = 1
    while active and not control.stopped:
        record = _decode(run, active, index)
        going_on = [place for place, row in enumerate(record.rows) if row.finish_reason is None]
        for place in going_on:
            active[place].advance(record.rows[place].accepted_ids)
        if going_on and len(going_on) < len(active):
            rows.keep(going_on)
        active = [active[place] for place in going_on]
        yield record
        index += 1


def _prefill(run: Run, active: list[Row]) -> ForwardPass:
    """Put every prompt but its last token, which the first decode pass reads, into the cache."""
    threshold = run.threshold
    heads = [Row(row.number, 0, row.pending[:-1]) for row in active]
    ids, slots, query_tokens = _window(heads, None, 0, use_cache=True)
    with run.engine.clock() as clock:
        run.rows.forward(ids, slots, 0)
    reason: FinishReason | None = "cancelled" if run.control.stopped else None
    for row in active:
        row.cursor, row.pending = len(row.pending) - 1, row.pending[-1:]
    records = tuple(RowPass(row.number, 0, (), 0, threshold, reason) for row in heads if row.pending)
    return ForwardPass(0, "prefill", clock.seconds, query_tokens, records)


def _decode(run: Run, active: list[Row], index: int) -> ForwardPass:
    """Forward the pending tokens and the masks, and accept from the left."""
    settings, engine, threshold = run.settings, run.engine, run.threshold
    room = [settings.max_new_tokens - row.written for row in active]
    # One-token mode reads no mask, and no mask is forwarded whose proposal has no room in any row.
    width = 1 if threshold is None else min(1 + (run.masks or 0), max(room))
    ids, slots, query_tokens = _window(active, engine.mask_token_id, width - 1, use_cache=settings.use_cache)
    with engine.clock() as clock:
        judgement = judge(
            run.rows.forward(ids, slots, width),
            threshold=threshold,
            score=settings.score,
            stop_token_ids=engine.stop_token_ids,
            room=room,
            alternatives=settings.alternatives,
        )
    unfinished: FinishReason | None = "cancelled" if run.control.stopped else None
    records = []
    for place, row in enumerate(active):
        proposals = _proposals(judgement, place, room[place])
        accepted = judgement.accepted[place]
        stopped = proposals[accepted - 1].token_id in engine.stop_token_ids
        reason: FinishReason | None = "stop" if stopped else "length" if accepted == room[place] else unfinished
        records.append(RowPass(row.number, row.written, proposals, accepted, threshold, reason))
    return ForwardPass(index, "decode", clock.seconds, query_tokens, tuple(records))


def _window(
    active: list[Row], mask: int | None, masks: int, *, use_cache: bool
) -> tuple[list[list[int]], list[list[int]], int]:
    """Token ids and slots [R, Q] of one pass, padded on the left, and the positions it computes, padding left out."""
    longest = max(len(row.pending) for row in active)
    ids, slots, query_tokens = [], [], 0
    for row in active:
        padding = [0] * (longest - len(row.pending))
        end = row.cursor + len(row.pending) + masks
        ids.append(padding + row.pending + ([] if mask is None else [mask] * masks))
        slots.append([*padding, *range(row.cursor + 1, end + 1)])
        query_tokens += end - row.cursor if use_cache else end
    return ids, slots, query_tokens


def _proposals(judgement: Judgement, place: int, room: int) -> tuple[Proposal, ...]:
    """What one row proposes, as far as it has room: what it would propose alone."""
    columns = zip(judgement.ids[place][:room], judgement.scores[place], judgement.alternatives[place], strict=False)
    return tuple(
        Proposal(token, score, "mask" if column else "clean", alternatives)
        for column, (token, score, alternatives) in enumerate(columns)
    )

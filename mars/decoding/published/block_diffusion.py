"""Block diffusion (BD3-LM, arXiv 2503.09573), the baseline of the paper: it fills a block in any order.

Blocks of B positions lie on the grid of the whole sequence, prompt included, as in training. A pass reads what is
filled of the present block, and masks, against the cached blocks; it fills the surest mask and, with a threshold, all
that meet it. The pass that fills the last one accepts the block. Its cached keys and values were computed while it
still had masks, so the first pass of the next block reads it once more, in front. Rows wait for each other there.

Shapes: R rows, B columns of a block, Q columns of a window, V vocabulary, K slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from mars.acceptance import passes, read, thresholds, to_host
from mars.config import DecodingSettings, ScoreName, meets_threshold
from mars.control import Control
from mars.decoding.base import Prompts, calibration_of, check, trained_diffusion
from mars.decoding.published.lockstep import prompt_chunks, recorded
from mars.decoding.sequences import drop
from mars.decoding.trace import trace
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import FinishReason, ForwardPass, Proposal, Reads, Reason, RowPass, Trace
from mars.sampling import Sampling


def block_diffusion(
    engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control | None = None
) -> Iterator[ForwardPass]:
    """Blocks of `block_size`, which should be that of the training; without a threshold a pass fills one position.

    If `control` stops while a row waits, no record of the row says so; its full block stays accepted.

    Raises:
        ValueError: at the call, for prompts that are empty or do not fit the context, or a model that was not trained
            by block diffusion.
    """
    check(engine, prompts, settings, causal=False)
    mask_token_id = trained_diffusion(engine)
    calibration_of(engine, settings)  # which says that there is none
    blocks = _Blocks(engine, prompts, settings, control or Control(settings.threshold, settings.score), mask_token_id)
    return recorded(blocks.passes())


def choose(
    scores_RB: torch.Tensor, open_RB: torch.Tensor, thresholds_R: torch.Tensor, score: ScoreName
) -> torch.Tensor:
    """The masks that a pass fills, bool [R, B]: among `open_RB` the surest and all that meet the row's threshold."""
    sureness_RB = (-scores_RB if score == "entropy" else scores_RB).masked_fill(~open_RB, -math.inf)
    surest_RB = torch.zeros_like(open_RB).scatter_(1, sureness_RB.argmax(1, keepdim=True), True)
    return open_RB & (surest_RB | passes(scores_RB, thresholds_R, score))


@dataclass(slots=True, kw_only=True)
class _Row:
    """The host's state of a sequence. Its block begins at position `first` and is `shown` as its last pass left it.

    `kept` has an entry for each position of the block behind the prompt, None while that is a mask.
    """

    number: int
    prompt_length: int
    first: int
    written: int = 0
    kept: list[Proposal | None] = field(default_factory=list)
    shown: tuple[Proposal, ...] = ()
    ended: bool = False

    @property
    def full(self) -> bool:
        """Whether no mask is left in its block."""
        return None not in self.kept

    def take(self, proposals: Sequence[Proposal], chosen: Sequence[bool]) -> None:
        """Fill what was chosen, given the proposals of all columns of the block."""
        behind = -len(self.kept)
        columns = list(zip(self.kept, proposals[behind:], chosen[behind:], strict=True))
        self.shown = tuple(kept or new for kept, new, _ in columns)
        self.kept = [kept or (replace(new, source="draft") if fills else None) for kept, new, fills in columns]


class _Blocks:
    """The block that each row of a run is at. The rows that have not ended have the first places."""

    def __init__(self, engine: Engine, prompts: Prompts, settings: DecodingSettings, control: Control, mask: int):
        self.engine, self.settings, self.control, self.mask = engine, settings, control, mask
        self.size = settings.block_size
        capacity = max(map(len, prompts)) + settings.max_new_tokens + self.size
        self.cache = engine.open(len(prompts), capacity, use_cache=settings.use_cache)
        self.tokens_RK = torch.zeros(len(prompts), capacity + 1, dtype=torch.long, device=engine.device)
        self.rows: list[_Row] = []
        for number, prompt in enumerate(prompts):
            whole = len(prompt) // self.size * self.size
            self.rows.append(_Row(number=number, prompt_length=len(prompt), first=whole))
            self.tokens_RK[number, 1 : len(prompt) + 1] = torch.tensor(list(prompt), device=engine.device)
        self.begin()

    def passes(self) -> Iterator[ForwardPass]:
        """The prompts, then block after block until all rows have ended or `control` stops."""
        if self.settings.use_cache:
            yield from self.read_prompts()
        behind = 0
        while self.rows and not self.control.stopped:
            record = self.fill(behind if self.settings.use_cache else max(row.first for row in self.rows))
            behind = 0
            if all(row.full for row in self.rows):
                self.next_block()
                behind = self.size
            yield record

    def read_prompts(self) -> Iterator[ForwardPass]:
        """Cache the whole blocks of the prompts."""
        for start, end, counts in prompt_chunks([row.first for row in self.rows], self.size):
            if self.control.stopped:
                return
            with self.engine.clock() as clock:
                window = self.window(start, end, keep=0)
                self.cache.forward(window)
            parts = [self.part(place, window, self.control.threshold) for place, count in enumerate(counts) if count]
            yield ForwardPass(0, "prefill", clock.seconds, sum(counts), tuple(parts))

    def begin(self) -> None:
        """Put masks where the blocks are behind the prompts."""
        device = self.engine.device
        counts = torch.tensor([(row.first, row.prompt_length) for row in self.rows], dtype=torch.long, device=device)
        counts = counts.reshape(-1, 2)
        self.slots_RB = counts[:, :1] + torch.arange(1, self.size + 1, device=device)
        self.positions_RB = self.slots_RB - 1 - counts[:, 1:]
        self.open_RB = self.positions_RB >= 0
        self.sampling = Sampling.of([self.settings] * len(self.rows), device)
        self.write(torch.full_like(self.slots_RB, self.mask), self.open_RB)
        for row in self.rows:
            row.kept = [None] * min(self.size, row.first + self.size - row.prompt_length)

    def write(self, ids_RB: torch.Tensor, where_RB: torch.Tensor) -> None:
        """Put these tokens into these columns of the blocks."""
        tokens_RK = self.tokens_RK[: len(self.rows)]
        tokens_RK.scatter_(1, self.slots_RB, torch.where(where_RB, ids_RB, tokens_RK.gather(1, self.slots_RB)))

    def window(self, start: int, end: int, keep: int) -> Window:
        """Columns `start` to `end`, counted from where each row's block begins; one sees its block and those before."""
        slots_RQ = (self.slots_RB[:, :1] + torch.arange(start, end, device=self.engine.device)).clamp_min(0)
        block_RQ = (slots_RQ - 1).div(self.size, rounding_mode="floor")
        return Window(
            ids_RQ=self.tokens_RK[: len(self.rows)].gather(1, slots_RQ),
            slots_RQ=slots_RQ,
            extent=max(row.first for row in self.rows) + end + 1,
            keep=keep,
            sees_RQQ=block_RQ[:, None] <= block_RQ[..., None],
        )

    def fill(self, behind: int) -> ForwardPass:
        """One pass over the blocks and `behind` positions before them; rows whose block is full ride along."""
        threshold, score = self.control.threshold, self.settings.score
        with self.engine.clock() as clock:
            window = self.window(-behind, self.size, keep=self.size)
            logits_RBV, count = self.cache.forward(window), self.settings.alternatives
            positions_RB = self.positions_RB.clamp_min(0)
            proposals = read(logits_RBV, positions_RB, score=score, sampling=self.sampling, alternatives=count)
            limits_R = thresholds([threshold] * len(self.rows), score, self.engine.device)
            chosen_RB = choose(proposals.scores_RW, self.open_RB, limits_R, score)
            self.write(proposals.ids_RW, chosen_RB)
            self.open_RB = self.open_RB & ~chosen_RB
            judged, chosen = to_host(chosen_RB.sum(1), proposals), chosen_RB.tolist()
        active = [(place, row) for place, row in enumerate(self.rows) if not row.full]
        for place, row in active:
            row.take(judged.proposals(place, ["mask"] * self.size), chosen[place])
        parts = tuple(self.part(place, window, threshold, accepts=row.full) for place, row in active)
        query_tokens = sum(min(behind, row.first) + self.size for row in self.rows)
        return ForwardPass(0, "denoise", clock.seconds, query_tokens, parts)

    def part(self, place: int, window: Window, threshold: float | None, *, accepts: bool = False) -> RowPass:
        """The row's part of the record; a full block is accepted up to the end of sequence and the limit."""
        row = self.rows[place]
        start = row.written
        shown = row.shown[: self.settings.max_new_tokens - start]
        ends = [proposal.token_id in self.engine.stop_token_ids for proposal in shown]
        accepted = min(len(shown), [*ends, True].index(True) + 1) if accepts else 0
        traced = self.traced(place, window, shown, accepted, threshold) if self.control.trace else None
        row.written += accepted
        reason: FinishReason | None = None
        if any(ends[:accepted]):
            reason = "stop"
        elif row.written == self.settings.max_new_tokens:
            reason = "length"
        elif self.control.stopped:
            reason = "cancelled"
        row.ended = reason is not None
        return RowPass(row.number, start, shown, accepted, threshold, reason, traced)

    def traced(
        self, place: int, window: Window, shown: Sequence[Proposal], accepted: int, threshold: float | None
    ) -> Trace:
        """The trace of a pass for a row, whose counts are those before the pass."""
        row = self.rows[place]
        reasons: list[Reason] = []
        for number, proposal in enumerate(shown):
            met = threshold is not None and meets_threshold(proposal.score, threshold, self.settings.score)
            filled: Reason = "met" if met else "surest"
            if accepted and number >= accepted:
                reasons.append("ended")
            elif proposal.source == "draft":
                reasons.append("filled")
            else:
                reasons.append(filled if row.kept[number] else "open")
        known = row.prompt_length + row.written
        ids = window.ids_RQ[place][window.slots_RQ[place] > known].tolist()
        behind: list[Reads] = ["mask" if token_id == self.mask else "draft" for token_id in ids]
        return trace(
            window,
            place,
            known=known,
            text=known,
            behind=behind,
            block=self.size,
            proposals=shown,
            reasons=reasons,
        )

    def next_block(self) -> None:
        """Drop the rows that have ended, the last ones taking their places, and go on with the others."""
        drop([place for place, row in enumerate(self.rows) if row.ended], self.rows, self.cache, self.tokens_RK)
        for row in self.rows:
            row.first += self.size
        self.begin()

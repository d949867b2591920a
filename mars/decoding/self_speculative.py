"""Exact multi-token decoding: the masks' proposals are drafts, and the next pass verifies them with the same model.

The prediction at the root, the last real token, is that of one-token mode; as long as a draft equals the prediction
before it, the next prediction is one-token mode's too. New drafts come from masks:

    linear      root  d1 … dj  m1 … mK                       only sure drafts, and none after a wrong one
    quadratic   root  d1 … dK  m1 … mK  m1 … mK  …  m1 … mK  one group behind each of K + 1 prefixes
    tree        root  d1 … dj  m1 … ma  m1 … mb  …           only the drafts and masks that pay (mars/decoding/trees.py)
    lookup      the same, with drafts that may be copies of what followed the same tokens before

Shapes: R rows, Q columns, D = K drafts, W proposals, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch.nn import functional

from mars.acceptance import Read, read
from mars.config import DecodingSettings
from mars.decoders import EXACT
from mars.decoding.base import trained_mask
from mars.decoding.method import AcceptResult, Batch, Method, Row, drafts_of, group_of, planned_window, window_of
from mars.decoding.trees import FIXED_LAYOUTS, MOST_COLUMNS, TREES, WORTH_MASKS, Expectation, Layout, Plan
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import Phase, Reads

# How probable a linear draft must be. A miss costs the drafts of the next pass, an unused draft the time of its column:
# nothing where every pass has the same shape, so that all of them are taken there (docs/log.md).
SURE = 0.5

STATIC_STEP = 8  # where passes have static shapes, trees have a multiple of so many columns, or one


@dataclass(frozen=True, kw_only=True)
class SelfSpeculative(Method):
    """Exact decoding. `drafts` is K; with `layout` None a policy chooses what rows spend (mars/decoding/policy.py).

    `planned` says that each row has a plan of its own: in trees, and under a policy where shapes are not static. The
    linear layout verifies drafts, from the left, with a probability of at least `sure`.

    The proposals past the accepted prefix are those of the masks behind it, from which the next pass takes its drafts.
    After a wrong draft in the linear layout there are no such masks: the proposals then follow the wrong draft.
    """

    phase: ClassVar[Phase] = "verify"

    drafts: int
    sure: float
    layout: Layout | None
    planned: bool = False

    @property
    def capturable(self) -> bool:  # type: ignore[override]  # plans are made on the host
        return not self.planned

    @property
    def adapts(self) -> bool:
        return self.layout is None

    @property
    def most_masks(self) -> int:
        return self.drafts

    @property
    def mask_counts(self) -> tuple[int, ...]:
        return () if self.planned else (0, self.drafts, self.drafts * (self.drafts + 1))

    def spending(self, masks: int) -> Method:
        return self if self.planned else replace(self, layout=FIXED_LAYOUTS[self.mask_counts.index(masks)])

    @property
    def lookahead(self) -> int:
        if self.planned:
            return MOST_COLUMNS + self.drafts + 1
        widths = {"none": 1, "linear": 2 * self.drafts + 1}
        return widths.get(self.layout or "quadratic", (self.drafts + 1) ** 2) + 1

    def begin(self, row: Row, tokens_K: torch.Tensor) -> None:
        # A mask stands for a draft that is not there: it is never predicted, so it always misses.
        tokens_K[row.length + 1 :] = self.mask_token_id
        row.expectation = Expectation(self.drafts) if self.planned else None

    @property
    def hides_refused(self) -> bool:
        return self.planned

    def shape(self, batch: Batch) -> tuple[int, int]:
        return (self.drafts, self.drafts) if self.layout == "quadratic" else (0, 0)

    def plan(self, batch: Batch) -> None:
        if self.layout in ("none", "quadratic"):
            super().plan(batch)
            return
        for row in batch.rows:
            if self.planned:
                row.plan = self._plan(row, row.expectation or Expectation(self.drafts))
            else:
                reads: tuple[Reads, ...] = tuple(self.reads(row, self.drafts))
                row.plan = Plan.of(reads, (*[0] * len(reads), self.drafts))

    def window(self, batch: Batch) -> Window:
        if self.layout in ("none", "quadratic"):
            return super().window(batch)
        if not self.planned:
            return self._linear(batch)
        widest = max(row.plan.columns for row in batch.rows)
        # In static shapes there are few widths.
        extra = -(-widest // STATIC_STEP) * STATIC_STEP - 1 if batch.static and widest > 1 else widest - 1
        return planned_window(batch, extra, self.mask_token_id)

    def _plan(self, row: Row, expected: Expectation) -> Plan:
        """Learn from the row's last pass; the columns that pay in the next, with masks if a policy gives it any."""
        expected.verified(row.plan.chain, min(row.gained - 1, row.plan.drafts))
        proposals = [expected.proposal(*pair) for pair in zip(row.proposed, row.scores, strict=True)]
        if proposals:
            expected.reach.learn([draft.odds for draft in proposals])
        copies = None if self.layout == "tree" else row.read_copies()
        least = WORTH_MASKS if self.layout is not None else row.worth if row.masks else math.inf
        return expected.plan(proposals, row.price, row.room, copies, least=least)

    def _linear(self, batch: Batch) -> Window:
        """Root, drafts, K masks, aligned on the right; the row with the most drafts has no padding."""
        most = min(self.drafts, batch.drafts)
        drafts_R = self._drafts(batch)[1]
        alone = len(batch.rows) == 1 and not batch.static
        window = window_of(batch, most + self.drafts, None if alone else most - drafts_R)
        window.ids_RQ.masked_fill_(window.slots_RQ > (batch.length_R + drafts_R)[:, None], self.mask_token_id)
        return window

    def _drafts(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The drafts that the last pass left to verify [R, D], filled up with masks, and their number [R]."""
        drafts_RD = batch.behind(self.drafts)
        return drafts_RD, (drafts_RD != self.mask_token_id).sum(1)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        if logits_RWV.shape[1] == 1:
            return self._judge_none(batch, logits_RWV)
        if self.planned:
            return self._judge_tree(batch, logits_RWV)
        if self.layout != "quadratic":
            return self._judge_linear(batch, logits_RWV)
        chain = self.read(batch, logits_RWV[:, : self.drafts + 1])
        chain, accepted_R = self.verified(batch, chain, self._drafts(batch)[0], logits_RWV)
        last_R = (accepted_R - 1).clamp_min(0)  # a place without a row has no room
        path = self.read_path(batch, logits_RWV, group_of(last_R, self.drafts, self.drafts), chain, last_R)
        return AcceptResult(path, accepted_R, drafts_R=torch.full_like(accepted_R, self.drafts))

    def _judge_tree(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        plans = [row.plan for row in batch.rows]
        width, device = logits_RWV.shape[1], logits_RWV.device
        most = max(plan.drafts for plan in plans)
        roots_R = torch.tensor([width - plan.columns for plan in plans], device=device)
        if len(plans) == 1:
            root = width - plans[0].columns
            chain = self.read(batch, logits_RWV[:, root : root + most + 1])
        else:
            chain = self._read_chains(batch, logits_RWV, plans)
        drafts_RD = drafts_of(plans, most, device)
        chain, accepted_R = self.verified(batch, chain, drafts_RD, logits_RWV, roots_R)
        last_R = accepted_R - 1
        # Of each row's groups, as many as the row with most drafts has: the first column and how many masks.
        groups = [
            ([*plan.starts, *[0] * (most - plan.drafts)], [*plan.masks, *[0] * (most - plan.drafts)]) for plan in plans
        ]
        groups_RD2 = torch.tensor(groups, device=device).transpose(1, 2)
        start_R, masks_R = groups_RD2[torch.arange(len(plans), device=device), last_R].unbind(1)
        longest = max(max(plan.masks) for plan in plans)
        path = chain
        if longest:
            columns_RM = (roots_R + start_R)[:, None] + torch.arange(longest, device=device)
            path = self.read_path(batch, logits_RWV, columns_RM.clamp_max_(width - 1), chain, last_R)
        left_RW = functional.pad(path.ids_RW, (0, self.drafts), value=self.mask_token_id)
        past_RW = torch.arange(left_RW.shape[1], device=device) >= (accepted_R + masks_R)[:, None]
        return AcceptResult(path, accepted_R, left_RW.masked_fill(past_RW, self.mask_token_id), masks_R)

    def _read_chains(self, batch: Batch, logits_RWV: torch.Tensor, plans: Sequence[Plan]) -> Read:
        """Read each row's root and drafts one by one: in one rectangle, all rows would be as wide as the widest."""
        places = [(row, depth) for row, plan in enumerate(plans) for depth in range(1 + plan.drafts)]
        rows_N, depths_N = torch.tensor(places, device=logits_RWV.device).unbind(1)
        roots_R = torch.tensor([logits_RWV.shape[1] - plan.columns for plan in plans], device=logits_RWV.device)
        places_N = rows_N * logits_RWV.shape[1] + roots_R[rows_N] + depths_N
        proposals = read(
            logits_RWV.flatten(0, 1).index_select(0, places_N)[:, None],  # whole rows: a third of the time of indexing
            (batch.written_R[rows_N] + depths_N)[:, None],
            score=self.score,
            sampling=batch.sampling.select(rows_N),
            alternatives=self.alternatives,
        )
        return proposals.spread(rows_N, depths_N, (len(plans), 1 + max(plan.drafts for plan in plans)))

    def _judge_linear(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        drafts_RD, drafts_R = self._drafts(batch)
        alone = len(batch.rows) == 1 and not batch.static
        root_R = None if alone else logits_RWV.shape[1] - 1 - self.drafts - drafts_R
        proposals = self.read_rows(batch, logits_RWV, root_R, self.drafts)[0]
        sure_RW = proposals.scores_RW >= self.sure
        proposals, accepted_R = self.verified(batch, proposals, drafts_RD, logits_RWV, root_R)
        return self._left(proposals, accepted_R, sure_RW & (accepted_R > drafts_R)[:, None])

    def _judge_none(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        proposals = self.read(batch, logits_RWV)
        none_RK = torch.full_like(proposals.ids_RW, self.mask_token_id).expand(-1, self.drafts)
        left_RW = torch.cat((proposals.ids_RW, none_RK), 1)
        return AcceptResult(proposals, torch.ones_like(batch.length_R), left_RW, torch.zeros_like(batch.length_R))

    def verified(
        self,
        batch: Batch,
        chain: Read,
        drafts_RD: torch.Tensor,
        logits_RWV: torch.Tensor,
        root_R: torch.Tensor | None = None,
    ) -> tuple[Read, torch.Tensor]:
        """The proposals at the root and at each draft, from the root on, and the length [R] of the accepted prefix.

        `root_R` is the column of each row's root among those of `logits_RWV`, 0 unless given.
        """
        return chain, batch.matched(chain.ids_RW, drafts_RD)

    def _left(self, proposals: Read, accepted_R: torch.Tensor, kept_RW: torch.Tensor) -> AcceptResult:
        """Leave the accepted tokens and behind them at most K drafts, as long as `kept_RW` [R, W] is true.

        Masks follow in the K slots in which the next pass may look for drafts, over anything left there before.
        """
        columns_W = torch.arange(kept_RW.shape[1], device=kept_RW.device)
        accepted_RW = columns_W < accepted_R[:, None]
        within_RW = columns_W < accepted_R[:, None] + self.drafts
        run_RW = ((accepted_RW | kept_RW) & within_RW).cumprod(1).bool()
        left_RW = torch.where(run_RW, proposals.ids_RW, self.mask_token_id)
        return AcceptResult(proposals, accepted_R, left_RW, run_RW.sum(1) - accepted_R)

    def layout_name(self, row: Row) -> str:
        if self.layout is not None or not self.planned:
            return self.layout or "linear"
        return "lookup" if any(row.plan.masks) else "copy" if row.plan.drafts else "none"


def method_of(
    engine: Engine, settings: DecodingSettings, decoder: str = EXACT, kind: type[SelfSpeculative] = SelfSpeculative
) -> SelfSpeculative:
    """The method that these settings ask for, for the `decoder` of this name, and of this kind.

    K is `block_size` - 1, or `block_size` with `extra_proposal`. Scores are probabilities, whatever `score` says.
    ValueError where the model was not trained to fill masks, or there is no room for a draft.
    """
    if settings.masks < 1:
        raise ValueError(f"{decoder} needs block_size >= 2, got {settings.block_size}: a block of 1 has no draft")
    return kind(
        mask_token_id=trained_mask(engine, decoder),
        drafts=settings.masks,
        sure=0.0 if engine.static_shapes else SURE,
        layout=None if settings.layout == "auto" else settings.layout,
        planned=settings.layout in TREES or (settings.layout == "auto" and not engine.static_shapes),
        alternatives=settings.alternatives,
    )

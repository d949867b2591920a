"""Prompt lookup decoding: drafts are copies of what followed the same tokens before; the model verifies them.

Copies and what they are worth: mars/decoding/trees.py. Shapes: R rows, D drafts, W = D + 1 proposals, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from mars.config import DecodingSettings
from mars.decoding.method import AcceptResult, Batch, Method, drafts_of, planned_window
from mars.decoding.trees import MOST_COLUMNS, PRICE, Expectation
from mars.engine import Engine
from mars.engine.window import Window
from mars.records import Phase

USUAL = Expectation(0)  # it learns nothing, so that a row's passes do not depend on other rows


@dataclass(frozen=True, kw_only=True)
class PromptLookup(Method):
    """`drafts` is K, the most drafts of a pass; all that are found where every pass has the same shape."""

    phase: ClassVar[Phase] = "verify"

    drafts: int

    @property
    def lookahead(self) -> int:
        return self.drafts + 1

    def plan(self, batch: Batch) -> None:
        most, price = min(self.drafts, MOST_COLUMNS - 1), 0.0 if batch.static else PRICE  # 0: all that are found
        for row in batch.rows:
            row.plan = USUAL.plan((), price, row.room, row.read_copies(), most)

    def window(self, batch: Batch) -> Window:
        drafts = self.drafts if batch.static else max(row.plan.drafts for row in batch.rows)
        return planned_window(batch, drafts, self.mask_token_id)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        plans, (_, width, _) = [row.plan for row in batch.rows], logits_RWV.shape
        missing_R = torch.tensor([width - plan.columns for plan in plans], device=logits_RWV.device)
        path, _ = self.read_rows(batch, logits_RWV, missing_R)
        drafts_RD = drafts_of(plans, width - 1, logits_RWV.device)
        return AcceptResult(path, batch.matched(path.ids_RW, drafts_RD))


def method_of(engine: Engine, settings: DecodingSettings) -> PromptLookup:
    """The method that these settings ask for; K is `draft_tokens`."""
    return PromptLookup(drafts=settings.draft_tokens, score=settings.score, alternatives=settings.alternatives)

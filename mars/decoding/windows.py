"""The windows of plans: root, drafts and masks of each row in their slots, and who sees whom.

Shapes: R rows, Q columns, D drafts, M masks of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import torch
from torch.nn import functional

from mars.decoding.trees import Plan
from mars.engine.window import Window, verification_tree


class Batch(Protocol):
    """What a window asks of `mars.decoding.method.Batch`."""

    rows: list[Any]
    tokens_RK: torch.Tensor
    length_R: torch.Tensor
    pending_R: torch.Tensor
    pending: int
    static: bool

    @property
    def extent(self) -> int:
        """1 + the furthest slot that holds a known token of any row."""


def window_of(batch: Batch, extra: int, shift_R: torch.Tensor | None = None) -> Window:
    """The causal window of these slots (`slots_of`) and the tokens in them; the last 1 + `extra` columns predict."""
    slots_RQ = slots_of(batch, extra, shift_R)
    ids_RQ = batch.tokens_RK.gather(1, slots_RQ)
    return Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=batch.extent + extra, keep=1 + extra)


def tree_window(batch: Batch, drafts: int, masks: int, mask_token_id: int) -> Window:
    """The window of so many drafts, with a group of masks behind each of their prefixes (`verification_tree`)."""
    window = window_of(batch, drafts + (drafts + 1) * masks)
    if masks:
        window.ids_RQ[:, batch.pending + drafts :].fill_(mask_token_id)
    if not drafts or not masks:
        return window
    depths_Q, sees_QQ = _regular_tree(batch.pending, drafts, masks, window.ids_RQ.device)
    positions_RQ = (batch.length_R[:, None] - 1 + depths_Q).clamp_min(0)
    return replace(window, positions_RQ=positions_RQ, sees_RQQ=sees_QQ[None])


def planned_window(batch: Batch, extra: int, mask_token_id: int) -> Window:
    """The window of each row's plan, aligned on the right; `extra` columns stand behind the first root."""
    plans, device = [row.plan for row in batch.rows], batch.length_R.device
    if not extra:
        return window_of(batch, 0)
    ids = [
        [-1] * (1 + extra - plan.columns) + [draft.token_id for draft in plan.chain] + [mask_token_id] * sum(plan.masks)
        for plan in plans
    ]
    behind_RC = torch.tensor(ids, device=device)  # -1 where there is no column
    alone = len(plans) == 1 and not batch.static
    columns_R = torch.tensor([plan.columns for plan in plans], device=device)
    window = window_of(batch, extra, None if alone else extra + 1 - columns_R)
    window.ids_RQ[:, -extra:] = torch.where(behind_RC < 0, window.ids_RQ[:, -extra:], behind_RC)
    if not any(any(plan.masks) for plan in plans):
        return window
    trees = [verification_tree(batch.pending, plan.masks, device) for plan in plans]
    missing = [window.columns - len(depths_Q) for depths_Q, _ in trees]
    pairs = list(zip(trees, missing, strict=True))
    depths_RQ = torch.stack([functional.pad(depths_Q, (left, 0)) for (depths_Q, _), left in pairs])
    sees_RQQ = torch.stack([functional.pad(sees_QQ, (left, 0, left, 0)) for (_, sees_QQ), left in pairs])
    if any(missing):
        sees_RQQ |= torch.eye(window.columns, dtype=torch.bool, device=device)
    positions_RQ = (batch.length_R[:, None] - 1 + depths_RQ).clamp_min_(0)
    return replace(window, positions_RQ=positions_RQ, sees_RQQ=sees_RQQ)


@cache  # there are few of them, and CUDA graphs read them where they lie
def _regular_tree(pending: int, drafts: int, masks: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return verification_tree(pending, (masks,) * (drafts + 1), device)


def group_of(last_R: torch.Tensor, drafts: int, masks: int) -> torch.Tensor:
    """The columns [R, M] of the masks that stand behind column `last_R` of the chain of a verification tree.

    Group j of the tree (`verification_tree`) starts at column K + 1 + jM.
    """
    return 1 + drafts + masks * last_R[:, None] + torch.arange(masks, device=last_R.device)


def drafts_of(plans: Sequence[Plan], most: int, device: torch.device) -> torch.Tensor:
    """The drafts of each plan [R, D], D = `most`; shorter plans are filled up with -1."""
    ids = [[draft.token_id for draft in plan.chain] + [-1] * (most - plan.drafts) for plan in plans]
    return torch.tensor(ids, dtype=torch.long, device=device)


def slots_of(batch: Batch, extra: int, shift_R: torch.Tensor | None = None) -> torch.Tensor:
    """Slots [R, pending + extra], from the tokens that are not cached yet to `extra` slots past the last token.

    With `shift_R`, each row's columns begin and end so many slots earlier. Columns in front of what a row has to read
    are padding, slot 0.
    """
    offsets_Q = torch.arange(1 - batch.pending, extra + 1, device=batch.length_R.device)
    offsets_RQ = offsets_Q if shift_R is None else offsets_Q - shift_R[:, None]
    slots_RQ = batch.length_R[:, None] + offsets_RQ
    if shift_R is not None or batch.pending > 1:
        slots_RQ.masked_fill_(offsets_RQ <= -batch.pending_R[:, None], 0)
    return slots_RQ

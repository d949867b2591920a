"""Proposals picked from the columns of a pass: those on the path that a row took.

Shapes: R rows, D drafts and W proposals a row, N of them in all rows, A alternatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mars.acceptance import Read
from mars.decoding.trees import Plan


def drafts_of(plans: Sequence[Plan], most: int, device: torch.device, *, on_the_right: bool = False) -> torch.Tensor:
    """The drafts of each plan [R, D], D = `most`; shorter plans are filled up with -1, behind or in front."""
    ids_RD = torch.full((len(plans), most), -1)
    for ids_D, plan in zip(ids_RD, plans, strict=True):
        start = most - plan.drafts if on_the_right else 0
        ids_D[start : start + plan.drafts] = torch.tensor([draft.token_id for draft in plan.chain], dtype=torch.long)
    return ids_RD.to(device)


def group_of(last_R: torch.Tensor, drafts: int, masks: int) -> torch.Tensor:
    """The columns [R, M] of the masks that stand behind column `last_R` of the chain of a verification tree.

    Group j of the tree (`masks.verification_tree`) starts at column K + 1 + jM.
    """
    return 1 + drafts + masks * last_R[:, None] + torch.arange(masks, device=last_R.device)


def joined(chain: Read, group: Read, last_R: torch.Tensor) -> Read:
    """The proposals [R, 1 + K + M] of a path: those of the chain [R, 1 + K] up to `last_R`, then the group's [R, M].

    Past these the last one is repeated; nothing reads it.
    """
    verified, masks = chain.ids_RW.shape[1], group.ids_RW.shape[1]
    columns_W = torch.arange(verified + masks, device=last_R.device)
    last_R1 = last_R[:, None]
    in_group_RW = verified - 1 + (columns_W - last_R1).clamp(1, masks)
    alternatives = None
    if chain.alternatives is not None and group.alternatives is not None:
        pairs = zip(chain.alternatives, group.alternatives, strict=True)
        ids_RWA, probabilities_RWA = (torch.cat(pair, 1) for pair in pairs)
        alternatives = ids_RWA, probabilities_RWA
    scores_RW = torch.cat((chain.scores_RW, group.scores_RW), 1)
    both = Read(torch.cat((chain.ids_RW, group.ids_RW), 1), scores_RW, alternatives)
    return taken(both, torch.where(columns_W <= last_R1, columns_W, in_group_RW))


def spread(found: Read, rows_N: torch.Tensor, columns_N: torch.Tensor, shape: tuple[int, int]) -> Read:
    """Put proposals that were read one by one [N, 1] into their rows and columns [R, W]; other places are unused."""

    def put(values_N: torch.Tensor) -> torch.Tensor:
        whole_RW = values_N.new_zeros((*shape, *values_N.shape[1:]))
        whole_RW[rows_N, columns_N] = values_N
        return whole_RW

    listed = found.alternatives
    alternatives = None if listed is None else (put(listed[0][:, 0]), put(listed[1][:, 0]))
    return Read(put(found.ids_RW[:, 0]), put(found.scores_RW[:, 0]), alternatives)


def taken(found: Read, index_RW: torch.Tensor) -> Read:
    """The proposals in these columns of their rows."""
    alternatives = None
    if found.alternatives is not None:
        ids_RWA, probabilities_RWA = found.alternatives
        index_RWA = index_RW[..., None].expand(-1, -1, ids_RWA.shape[-1])
        alternatives = ids_RWA.gather(1, index_RWA), probabilities_RWA.gather(1, index_RWA)
    return Read(found.ids_RW.gather(1, index_RW), found.scores_RW.gather(1, index_RW), alternatives)

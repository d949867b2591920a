"""Proposals picked from the columns of a pass: those on the path that a row took.

Shapes: R rows, W proposals a row, A alternatives.
"""

from __future__ import annotations

import torch

from mars.acceptance import Read


def along(found: Read, accepted_R: torch.Tensor, drafts: int, masks: int) -> Read:
    """The proposals [R, 1 + K + M] on the accepted path of a verification tree (`masks.verification_tree`).

    First the verified tokens, then those of the M masks behind them. Past these the last one is repeated; nothing reads
    it.
    """
    columns_W = torch.arange(1 + drafts + masks, device=accepted_R.device)
    last_R1 = accepted_R[:, None] - 1
    # Group j starts at column K + 1 + jM, and its first mask follows position j of the chain.
    in_group_RW = drafts + masks * last_R1 + (columns_W - last_R1).clamp(1, masks)
    return taken(found, torch.where(columns_W <= last_R1, columns_W, in_group_RW))


def taken(found: Read, index_RW: torch.Tensor) -> Read:
    """The proposals in these columns of their rows."""
    alternatives = None
    if found.alternatives is not None:
        ids_RWA, probabilities_RWA = found.alternatives
        index_RWA = index_RW[..., None].expand(-1, -1, ids_RWA.shape[-1])
        alternatives = ids_RWA.gather(1, index_RWA), probabilities_RWA.gather(1, index_RWA)
    return Read(found.ids_RW.gather(1, index_RW), found.scores_RW.gather(1, index_RW), alternatives)

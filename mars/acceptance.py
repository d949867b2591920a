"""Scores of proposals and the length of the accepted prefix, for all rows at once on the device.

Shapes: R rows, W proposals a row, V vocabulary, A alternatives. Section 3.4 and appendix D of arXiv 2604.07023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from mars.config import ScoreName

Alternatives = tuple[tuple[int, float], ...]


def _probability(logits_RWV: torch.Tensor, total_RW: torch.Tensor) -> torch.Tensor:
    return (logits_RWV.amax(-1) - total_RW).exp()


def _margin(logits_RWV: torch.Tensor, total_RW: torch.Tensor) -> torch.Tensor:
    first, second = (logits_RWV.topk(2).values - total_RW[..., None]).exp().unbind(-1)
    return first - second


def _entropy(logits_RWV: torch.Tensor, total_RW: torch.Tensor) -> torch.Tensor:
    # entr(p) = -p log p, 0 where p is 0: the mask token's logit is -inf.
    entropy: torch.Tensor = torch.special.entr((logits_RWV - total_RW[..., None]).exp()).sum(-1)
    return entropy


# From logits [R, W, V] and their logsumexp [R, W] to scores [R, W]; entropy in nats, lower is surer.
SCORES: dict[ScoreName, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "probability": _probability,
    "margin": _margin,
    "entropy": _entropy,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one pass proposes and how much of it is accepted, on the host: one entry a row, then one a proposal."""

    accepted: list[int]
    ids: list[list[int]]
    scores: list[list[float]]
    alternatives: list[list[Alternatives]]


def passes(scores: torch.Tensor, threshold: float, score: ScoreName) -> torch.Tensor:
    """Which scores meet the threshold, compared in double precision, as a reader of the records would."""
    return scores.double() <= threshold if score == "entropy" else scores.double() >= threshold


def accepted_lengths(
    ids_RW: torch.Tensor,
    scores_RW: torch.Tensor,
    *,
    threshold: float | None,
    score: ScoreName,
    stop_ids: torch.Tensor,
    room_R: torch.Tensor,
) -> torch.Tensor:
    """Length of the accepted prefix of each row, [R], at least 1.

    The first proposal is always accepted, the others while they meet `threshold` (None: none of them does), up to and
    including the first stop token, and never more than `room_R` (>= 1) tokens.
    """
    if threshold is None:
        return torch.ones_like(room_R)
    follows_RW = passes(scores_RW, threshold, score)
    follows_RW[:, 0] = True
    follows_RW[:, 1:] &= ~torch.isin(ids_RW[:, :-1], stop_ids)
    return follows_RW.cumprod(1).sum(1).minimum(room_R)


@torch.inference_mode()
def judge(
    logits_RWV: torch.Tensor,
    *,
    threshold: float | None,
    score: ScoreName,
    stop_token_ids: Collection[int],
    room: Sequence[int],
    alternatives: int,
) -> Judgement:
    """Propose the most probable token at each position, score it, and accept from the left.

    One transfer to the host. `room` is how many tokens each row may still take; `alternatives` how many of the most
    probable tokens are listed for each proposal.

    Raises:
        ValueError: when the logits are not numbers.
    """
    device = logits_RWV.device
    ids_RW = logits_RWV.argmax(-1)
    total_RW = logits_RWV.logsumexp(-1)
    scores_RW = SCORES[score](logits_RWV, total_RW).double()
    accepted_R = accepted_lengths(
        ids_RW,
        scores_RW,
        threshold=threshold,
        score=score,
        stop_ids=torch.tensor(list(stop_token_ids), dtype=torch.long, device=device),
        room_R=torch.tensor(list(room), device=device),
    )
    columns = [accepted_R[:, None].double(), ids_RW.double(), scores_RW]
    count = min(alternatives, logits_RWV.shape[-1] - 1)
    if count:
        best_RWA, best_ids_RWA = logits_RWV.topk(count)
        columns += [best_ids_RWA.flatten(1).double(), (best_RWA - total_RW[..., None]).exp().flatten(1).double()]
    return _judgement(torch.cat(columns, 1).tolist(), ids_RW.shape[1], count)


def _judgement(table: list[list[float]], width: int, count: int) -> Judgement:
    ids = [[int(value) for value in row[1 : 1 + width]] for row in table]
    scores = [row[1 + width : 1 + 2 * width] for row in table]
    if any(math.isnan(value) for row in scores for value in row):
        raise ValueError("the model's logits are not numbers (NaN): check the weights, or load them in float32")
    none: list[Alternatives] = [()] * width
    alternatives = [none] * len(table)
    if count:
        alternatives = [_alternatives(row[1 + 2 * width :], width, count) for row in table]
    return Judgement([int(row[0]) for row in table], ids, scores, alternatives)


def _alternatives(flat: list[float], width: int, count: int) -> list[Alternatives]:
    pairs = [(int(token), probability) for token, probability in zip(flat, flat[width * count :], strict=False)]
    return [tuple(pairs[start : start + count]) for start in range(0, width * count, count)]

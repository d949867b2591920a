"""The proposals of a pass and the length of the accepted prefix, for all rows at once.

Everything but `to_host` and `unpacked` stays on the device. Shapes: R rows, W proposals a row, N of them in all rows,
D drafts a row, S stop tokens, V vocabulary, A alternatives. Section 3.4 and appendix D of arXiv 2604.07023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from mars.config import LEAST_CHANCE, ScoreName, meets_threshold
from mars.records import Proposal, Source
from mars.sampling import Sampling, pick

Alternatives = tuple[tuple[int, float], ...]


def _probability(probabilities_RWV: torch.Tensor, ids_RW: torch.Tensor) -> torch.Tensor:
    return probabilities_RWV.gather(-1, ids_RW[..., None])[..., 0]


def _margin(probabilities_RWV: torch.Tensor, _ids_RW: torch.Tensor) -> torch.Tensor:
    return -probabilities_RWV.topk(2).values.diff()[..., 0]


def _entropy(probabilities_RWV: torch.Tensor, _ids_RW: torch.Tensor) -> torch.Tensor:
    # entr(p) = -p log p, 0 where p is 0: the mask token's logit is -inf.
    entropy: torch.Tensor = torch.special.entr(probabilities_RWV).sum(-1)
    return entropy


# From the model's probabilities [R, W, V] and the proposed ids [R, W] to scores [R, W]. Probability is that of the
# proposed token; margin and entropy (nats, lower is surer) are of the distribution. `Read.calibrated` turns the
# probabilities of masks into chances.
SCORES: dict[ScoreName, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "probability": _probability,
    "margin": _margin,
    "entropy": _entropy,
    "calibrated": _probability,
}


@dataclass(frozen=True, slots=True)
class Read:
    """The proposals of one pass, on the device.

    `ids_RW` are the proposals, the most probable tokens or draws; `scores_RW` (float64) their scores under the model's
    own softmax, whatever the temperature; `alternatives` the ids and probabilities [R, W, A] of the most probable
    tokens, None unless asked for.
    """

    ids_RW: torch.Tensor
    scores_RW: torch.Tensor
    alternatives: tuple[torch.Tensor, torch.Tensor] | None

    def joined(self, group: Read, last_R: torch.Tensor) -> Read:
        """The proposals [R, 1 + K + M] of a path: of these [R, 1 + K] those up to `last_R`, then the group's [R, M].

        Past these the last one is repeated; nothing reads it.
        """
        verified, masks = self.ids_RW.shape[1], group.ids_RW.shape[1]
        columns_W = torch.arange(verified + masks, device=last_R.device)
        last_R1 = last_R[:, None]
        in_group_RW = verified - 1 + (columns_W - last_R1).clamp(1, masks)
        both = concatenated((self, group), 1)
        return both.taken(torch.where(columns_W <= last_R1, columns_W, in_group_RW))

    def calibrated(self, masks: int, calibration_2M: torch.Tensor) -> Read:
        """These, the probabilities p of whose last `masks` columns become the chance to be one-token mode's tokens.

        That is sigmoid(slope · logit(p) + offset), by the slopes and offsets of masks from the left; further masks take
        the last pair.
        """
        count = self.scores_RW.shape[1] - masks
        numbers_M = torch.arange(masks, device=calibration_2M.device).clamp_max(calibration_2M.shape[1] - 1)
        slopes_M, offsets_M = calibration_2M[:, numbers_M]
        odds_RM = self.scores_RW[:, count:].logit(LEAST_CHANCE)
        chances_RM = (slopes_M * odds_RM + offsets_M).sigmoid()
        return replace(self, scores_RW=torch.cat((self.scores_RW[:, :count], chances_RM), 1))

    def spread(self, rows_N: torch.Tensor, columns_N: torch.Tensor, shape: tuple[int, int]) -> Read:
        """These, read one by one [N, 1], in their rows and columns [R, W]; other places are unused."""

        def put(values_N: torch.Tensor) -> torch.Tensor:
            whole_RW = values_N.new_zeros((*shape, *values_N.shape[1:]))
            whole_RW[rows_N, columns_N] = values_N
            return whole_RW

        listed = self.alternatives
        alternatives = None if listed is None else (put(listed[0][:, 0]), put(listed[1][:, 0]))
        return Read(put(self.ids_RW[:, 0]), put(self.scores_RW[:, 0]), alternatives)

    def taken(self, index_RW: torch.Tensor) -> Read:
        """The proposals in these columns of their rows."""
        alternatives = None
        if self.alternatives is not None:
            ids_RWA, probabilities_RWA = self.alternatives
            index_RWA = index_RW[..., None].expand(-1, -1, ids_RWA.shape[-1])
            alternatives = ids_RWA.gather(1, index_RWA), probabilities_RWA.gather(1, index_RWA)
        return Read(self.ids_RW.gather(1, index_RW), self.scores_RW.gather(1, index_RW), alternatives)


def concatenated(reads: Sequence[Read], dim: int) -> Read:
    """The proposals of all of these, as more rows (`dim` 0) or more columns (1)."""
    parts = zip(*((one.ids_RW, one.scores_RW, *(one.alternatives or ())) for one in reads), strict=True)
    ids_RW, scores_RW, *listed = (torch.cat(part, dim) for part in parts)
    return Read(ids_RW, scores_RW, (listed[0], listed[1]) if listed else None)


@dataclass(frozen=True, slots=True)
class HostAcceptResult:
    """The proposals of one pass and the number accepted, on the host: one entry a row, then one a proposal.

    `drafts` is how many drafts each row has for the next pass, 0 for methods that count none.
    """

    accepted: list[int]
    drafts: list[int]
    ids: list[list[int]]
    scores: list[list[float]]
    alternatives: list[list[Alternatives]]

    def proposals(self, place: int, sources: Sequence[Source]) -> tuple[Proposal, ...]:
        """The first proposals of a row, as many as there are sources."""
        columns = zip(self.ids[place], self.scores[place], sources, self.alternatives[place], strict=False)
        return tuple(Proposal(*column) for column in columns)


@torch.inference_mode()
def read(
    logits_RWV: torch.Tensor,
    positions_RW: torch.Tensor,
    *,
    score: ScoreName,
    sampling: Sampling,
    alternatives: int,
) -> Read:
    """Propose one token in each column and score it.

    `positions_RW` are the proposals' positions in the response, 0 the first token; greedy rows do not read them.
    `alternatives` is how many of the most probable tokens are listed for each proposal.
    """
    if min(logits_RWV.shape[:2]) > 1 and logits_RWV.device.type == "cpu" and not sampling.active:
        # Row by row: the processor's cache then holds more of the logits between the two passes over them.
        rows = zip(logits_RWV.split(1), positions_RW.split(1), strict=True)
        found = [read(*row, score=score, sampling=sampling, alternatives=alternatives) for row in rows]
        return concatenated(found, 0)
    probabilities_RWV = logits_RWV.softmax(-1)
    ids_RW = pick(logits_RWV, positions_RW, sampling)
    proposals = Read(ids_RW, SCORES[score](probabilities_RWV, ids_RW).double(), None)
    count = min(alternatives, logits_RWV.shape[-1] - 1)
    if not count:
        return proposals
    best_RWA = logits_RWV.topk(count).indices
    return replace(proposals, alternatives=(best_RWA, probabilities_RWV.gather(-1, best_RWA)))


def thresholds(values: Sequence[float | None], score: ScoreName, device: torch.device | str) -> torch.Tensor:
    """Thresholds [R], float64, one a row; None, one-token mode, becomes one that no score meets."""
    never = -math.inf if score == "entropy" else math.inf
    return torch.tensor([never if value is None else value for value in values], dtype=torch.float64, device=device)


def passes(scores_RW: torch.Tensor, thresholds_R: torch.Tensor, score: ScoreName) -> torch.Tensor:
    """Which scores [R, W] meet the threshold of their row, in double precision, as a reader of the records compares."""
    found: torch.Tensor = meets_threshold(scores_RW.double(), thresholds_R[:, None], score)
    return found


def threshold_prefix(
    ids_RW: torch.Tensor,
    scores_RW: torch.Tensor,
    *,
    thresholds_R: torch.Tensor,
    score: ScoreName,
    stop_ids: torch.Tensor,
    room_R: torch.Tensor,
) -> torch.Tensor:
    """Length [R] of the accepted prefix where scores decide.

    The first proposal is always accepted, the others while they meet the threshold of their row, up to and including
    the first of `stop_ids` [S], and never more than `room_R` tokens.
    """
    if ids_RW.shape[1] == 1:
        return room_R.clamp(max=1)
    return _prefix(passes(scores_RW[:, 1:], thresholds_R, score), ids_RW, stop_ids, room_R)


def match_prefix(
    ids_RW: torch.Tensor, drafts_RD: torch.Tensor, *, stop_ids: torch.Tensor, room_R: torch.Tensor
) -> torch.Tensor:
    """Length [R] of the accepted prefix where exact verification decides.

    Column 0 of the pass read the last real token and column i draft i, so proposal i counts while every draft up to i
    is the proposal before it. Columns after the last draft's, should there be any, are not looked at, and a draft of
    -1 is none. Accepted are 1 + the leading matches, up to and including the first of `stop_ids` [S], and never more
    than `room_R` tokens.
    """
    drafts = drafts_RD.shape[1]
    return _prefix(ids_RW[:, :drafts] == drafts_RD, ids_RW[:, : drafts + 1], stop_ids, room_R)


def _prefix(
    follows_RD: torch.Tensor, ids_RW: torch.Tensor, stop_ids: torch.Tensor, room_R: torch.Tensor
) -> torch.Tensor:
    """The first proposal and those after it that follow, D = W - 1, without a stop token or the room's end before."""
    going_RD = follows_RD & ~torch.isin(ids_RW[:, :-1], stop_ids)
    return going_RD.cumprod(1).sum(1).add_(1).minimum(room_R)


def to_host(accepted_R: torch.Tensor, read: Read, drafts_R: torch.Tensor | None = None) -> HostAcceptResult:
    """Bring what was accepted and read to the host, in one transfer; ValueError when the logits were not numbers."""
    count = 0 if read.alternatives is None else read.alternatives[0].shape[-1]
    return unpacked(packed(accepted_R, read, drafts_R).tolist(), count)


def packed(accepted_R: torch.Tensor, read: Read, drafts_R: torch.Tensor | None = None) -> torch.Tensor:
    """All of it in one table [R, 2 + 2W + 2WA], float64, on the device."""
    counts = (accepted_R, torch.zeros_like(accepted_R) if drafts_R is None else drafts_R)
    columns = [torch.stack(counts, 1).double(), read.ids_RW.double(), read.scores_RW]
    if read.alternatives is not None:
        ids_RWA, probabilities_RWA = read.alternatives
        columns += [ids_RWA.flatten(1).double(), probabilities_RWA.flatten(1).double()]
    return torch.cat(columns, 1)


def unpacked(rows: Sequence[list[float]], count: int) -> HostAcceptResult:
    """Rows of the table of `packed`, on the host; `count` is A, the alternatives of each proposal.

    ValueError when the logits were not numbers.
    """
    width = (len(rows[0]) - 2) // (2 + 2 * count)
    ids = [[int(value) for value in row[2 : 2 + width]] for row in rows]
    scores = [row[2 + width : 2 + 2 * width] for row in rows]
    if any(math.isnan(value) for row in scores for value in row):
        raise ValueError("the model's logits are not numbers (NaN): check the weights, or load them in float32")
    none: list[Alternatives] = [()] * width
    alternatives = [none] * len(rows)
    if count:
        alternatives = [_alternatives(row[2 + 2 * width :], width, count) for row in rows]
    return HostAcceptResult([int(row[0]) for row in rows], [int(row[1]) for row in rows], ids, scores, alternatives)


def _alternatives(flat: list[float], width: int, count: int) -> list[Alternatives]:
    pairs = [(int(token), probability) for token, probability in zip(flat, flat[width * count :], strict=False)]
    return [tuple(pairs[start : start + count]) for start in range(0, width * count, count)]

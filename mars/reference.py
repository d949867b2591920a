"""MARS decoding and exact decoding on one page, as arXiv 2604.07023 and docs/decoders.md define them.

To be read, not to be fast: one prompt at a time, and the model reads the whole text anew in every pass. `model` is a
causal language model of transformers that was trained to fill masks, `mask` the id of its mask token; any of `stops`
ends the text. tests/mars/test_reference.py compares the decoders of mars/decoding with these two functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from transformers import PreTrainedModel

from mars.config import LEAST_CHANCE, DecodingSettings, ScoreName, meets_threshold
from mars.sampling import Sampling, pick


@dataclass(frozen=True)
class Pass:
    """The tokens that one pass proposes, how many of them it accepts, and the reasons (`mars.records.Reason`)."""

    tokens: list[int]
    accepted: int
    reasons: list[str]


def mars(
    model: PreTrainedModel,
    prompt: Sequence[int],
    settings: DecodingSettings,
    *,
    mask: int,
    stops: Collection[int],
    cache_block: int | None = None,
    calibration: Sequence[tuple[float, float]] = (),
) -> Iterator[Pass]:
    """The paper's decoder (section 3.4); with `cache_block`, no pass writes past the end of a cache block (4.5).

    The score `calibrated` is that of `calibration`, a slope and an offset for each mask; the last is for all further.
    """
    text, ended = list(prompt), False
    while not ended and (written := len(text) - len(prompt)) < settings.max_new_tokens:
        room = settings.max_new_tokens - written
        if cache_block is not None:
            room = min(room, cache_block - written % cache_block)

        # 1. Read the text and the masks behind it in one causal pass. The last token of the text predicts the next
        #    token, each mask the one after that. Without a threshold there is no mask: one token a pass.
        masks = 0 if settings.threshold is None else min(settings.masks, room - 1)
        logits = predict(model, [*text, *[mask] * masks], 1 + masks, mask)
        tokens = choose(logits, written, settings)

        # 2. Accept the first token always, the others from the left while their scores meet the threshold.
        scores = confidence(logits, tokens, settings.score)
        if settings.score == "calibrated":
            scores[1:] = calibrated(scores[1:], calibration)
        meets = [True, *(meets_threshold(score, settings.threshold, settings.score) for score in scores[1:])]
        accepted, ended = prefix(tokens, meets, stops, room)
        refused = ["ended" if ended else "behind"] * (len(tokens) - accepted)
        if refused and not ended:
            refused[0] = "below"
        yield Pass(tokens, accepted, ["first", *["met"] * (accepted - 1), *refused])

        # 3. The accepted tokens join the text, and the masks slide behind them.
        text += tokens[:accepted]


def exact(
    model: PreTrainedModel,
    prompt: Sequence[int],
    settings: DecodingSettings,
    *,
    mask: int,
    stops: Collection[int],
    sure: float | None = None,
) -> Iterator[Pass]:
    """Several tokens a pass, and the text of one token a pass: masks draft, the next pass verifies.

    The settings' threshold relaxes that: a draft also stays if it is so many times as probable as the best token. None
    is exact. `sure` is for the linear layout: drafts of at least that probability, and none after a wrong one.
    """
    text, ended, missed = list(prompt), False, False
    while not ended and (written := len(text) - len(prompt)) < settings.max_new_tokens:
        # 1. Draft. The last token was only predicted when the pass before read the others: the masks of that pass stand
        #    in its place and behind it, and propose what follows it. (A pass of the decoders has such masks behind each
        #    prefix that it may accept; to a causal model that makes no difference.)
        drafts: list[int] = []
        if written and not (sure is not None and missed):
            logits = predict(model, [*text[:-1], *[mask] * settings.masks], settings.masks, mask)
            drafts = choose(logits, written, settings)
            scored = zip(drafts, confidence(logits, drafts, "probability"), strict=True)
            drafts = [draft for draft, _ in takewhile(lambda pair: pair[1] >= (sure or 0), scored)]

        # 2. Verify. A prediction is that of one-token mode as long as the drafts before it are.
        logits = predict(model, [*text, *drafts], 1 + len(drafts), mask)
        tokens = choose(logits, written, settings)
        if settings.threshold is not None:
            odds = (logits - logits.amax(-1, keepdim=True)).double().exp()
            for place, draft in enumerate(drafts):
                if draft not in stops and odds[place, draft] >= settings.threshold:
                    tokens[place] = draft

        # 3. Accept the drafts that are right, from the left, and the prediction behind the last of them.
        right = [True, *(draft == token for draft, token in zip(drafts, tokens, strict=False))]
        accepted, ended = prefix(tokens, right, stops, settings.max_new_tokens - written)
        missed = accepted <= len(drafts)
        refused = ["ended" if ended else "wrong draft"] * (len(tokens) - accepted)
        yield Pass(tokens, accepted, ["first", *["right"] * (accepted - 1), *refused])
        text += tokens[:accepted]


@torch.inference_mode()
def predict(model: PreTrainedModel, ids: Sequence[int], count: int, mask: int) -> torch.Tensor:
    """Logits [count, V] behind each of the last `count` of these tokens; the mask token is never predicted."""
    logits = model(torch.tensor([ids])).logits[0, -count:].float()
    logits[:, mask] = -torch.inf
    return logits


def choose(logits: torch.Tensor, position: int, settings: DecodingSettings) -> list[int]:
    """The most probable tokens, or draws with the noise of the seed and the position, from `position` on."""
    positions = torch.arange(position, position + len(logits))
    return pick(logits[None], positions[None], Sampling.of([settings], "cpu"))[0].tolist()


def confidence(logits: torch.Tensor, tokens: Sequence[int], score: ScoreName) -> list[float]:
    """The score of each token (appendix D); margin and entropy are those of its distribution."""
    probabilities = logits.softmax(-1)
    if score == "margin":
        best = probabilities.topk(2).values
        return (best[:, 0] - best[:, 1]).tolist()
    if score == "entropy":
        return torch.special.entr(probabilities).sum(-1).tolist()
    return probabilities[range(len(tokens)), tokens].tolist()


def calibrated(probabilities: Sequence[float], calibration: Sequence[tuple[float, float]]) -> list[float]:
    """The chance of each mask's proposal to be the token of one-token mode."""
    pairs = [calibration[min(mask, len(calibration) - 1)] for mask in range(len(probabilities))]
    slopes, offsets = torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2).unbind(1)
    chances = (slopes * torch.tensor(probabilities, dtype=torch.float64).logit(LEAST_CHANCE) + offsets).sigmoid()
    return chances.tolist()


def prefix(tokens: Sequence[int], fits: Sequence[bool], stops: Collection[int], limit: int) -> tuple[int, bool]:
    """How many tokens are accepted: the first, then those that fit, up to a stop or the limit; and whether to stop."""
    count = 1
    while count < min(len(tokens), limit) and fits[count] and tokens[count - 1] not in stops:
        count += 1
    return count, tokens[count - 1] in stops

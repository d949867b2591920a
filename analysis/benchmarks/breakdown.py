"""The gains of exact decoding by position in the answer, by entropy of the model, by number of masks.

The first turn of each question is answered by AR, whose passes tell the entropy of each prediction, and exactly with
several block sizes. These write AR's text and differ in where their passes end: at the token whose draft was wrong, or
that had none. Tokens of one kind over the passes that end with one of them are the tokens per forward of that kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.benchmarks.questions import Question
from analysis.decoding.timed import run
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoders import BASELINE, EXACT
from mars.decoding.base import check
from mars.decoding.pool import shared_tokens
from mars.metrics import COUNTED

LAYOUT = "quadratic"
"""Masks alone, and all of them in every pass: nothing is copied from the text, and no price of columns decides."""
POSITIONS = (0, 8, 16, 32, 64, 128)
ENTROPIES = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0)
"""The least of each bin, in tokens and in nats."""
PLACES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The ids of an answer, the places of the last tokens of its passes, and the score of their first."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    scores: tuple[float, ...]


def breakdown(
    checkpoint: Checkpoint,
    questions: Sequence[Question],
    block_sizes: Sequence[int],
    max_new_tokens: int,
    places: int = PLACES,
    progress: Callable[[int], object] = lambda _: None,
) -> list[dict[str, Any]]:
    """For each block size the counts of each question: the number, all tokens and passes, and those of each bin.

    `same` says whether the text is AR's. `progress` is told after each answer.

    Raises:
        ValueError: a prompt does not fit, the model fills no masks, or a block has no mask.
    """
    prompts = [checkpoint.encode(question.turns[0]) for question in questions]

    def told(decoder: str, **settings: Any) -> list[Walk]:
        asked = DecodingSettings(threshold=None, max_new_tokens=max_new_tokens, **settings)
        return walks(checkpoint, prompts, asked, decoder, places, progress)

    plain = told(BASELINE, score="entropy", block_size=block_sizes[0])
    return [
        {
            "block_size": size,
            "questions": [
                _counts(question, walk, one.ids, one.scores)
                for question, walk, one in zip(
                    questions, told(EXACT, layout=LAYOUT, block_size=size), plain, strict=True
                )
            ],
        }
        for size in block_sizes
    ]


def walks(
    checkpoint: Checkpoint,
    prompts: Sequence[Sequence[int]],
    settings: DecodingSettings,
    decoder: str,
    places: int,
    progress: Callable[[int], object] = lambda _: None,
) -> list[Walk]:
    """The walk through each answer, in the order of the prompts; `places` of them decode at once.

    Raises:
        ValueError: as for `breakdown`.
    """
    check(checkpoint.engine, prompts, settings)
    found: list[tuple[list[int], list[int], list[float]]] = [([], [], []) for _ in prompts]
    for record in run(checkpoint.engine, decoder, settings, prompts, places):
        for part in record.rows:
            ids, ends, scores = found[part.row]
            if record.phase in COUNTED:
                ends.append(part.start + part.accepted - 1)
                scores.append(part.proposals[0].score)
                ids += part.accepted_ids
            if part.finish_reason is not None:
                progress(1)
    return [Walk(ids=tuple(ids), ends=tuple(ends), scores=tuple(scores)) for ids, ends, scores in found]


def _counts(question: Question, walk: Walk, ids: Sequence[int], entropies: Sequence[float]) -> dict[str, Any]:
    """Of one answer; where it is not AR's text, only the tokens before the first difference have an entropy."""
    known = shared_tokens(walk.ids, ids)
    return {
        "number": question.number,
        "category": question.category,
        "tokens": len(walk.ids),
        "passes": len(walk.ends),
        "same": walk.ids == tuple(ids),
        "position": _binned(POSITIONS, range(len(walk.ids)), walk.ends),
        "entropy": _binned(ENTROPIES, entropies[:known], [end for end in walk.ends if end < known]),
    }


def _binned(edges: Sequence[float], values: Sequence[float], ends: Sequence[int]) -> list[tuple[int, int]]:
    """Tokens and passes of each bin; `values` are those of the tokens, and `ends` the tokens that end a pass."""
    bins = [bisect_right(edges, max(value, edges[0])) - 1 for value in values]
    tokens, passes = Counter(bins), Counter(bins[end] for end in ends)
    return [(tokens[number], passes[number]) for number in range(len(edges))]

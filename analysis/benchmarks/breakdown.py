"""Where exact decoding gains its tokens: by position in the answer, by entropy of the model, by number of masks.

The first turn of each question is answered by AR, whose passes tell the entropy of each prediction, and exactly with
several block sizes. These write AR's text and differ in where their passes begin. Tokens of one kind over the passes
that begin with one of them are the tokens per forward of that kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.benchmarks.questions import Question
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoders import BASELINE, EXACT
from mars.decoding import METHODS
from mars.decoding.base import check
from mars.decoding.method import Row
from mars.decoding.pool import Pool
from mars.metrics import COUNTED

LAYOUT = "tree"
"""Masks alone: nothing is copied from the text."""
POSITIONS = (0, 8, 16, 32, 64, 128)
ENTROPIES = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0)
"""The least of each bin, in tokens and in nats."""
PLACES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The ids of an answer, the positions in it at which passes begin, and the score of what was accepted first."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    scores: tuple[float, ...]


def breakdown(
    checkpoint: Checkpoint,
    questions: Sequence[Question],
    block_sizes: Sequence[int],
    max_new_tokens: int,
    places: int = PLACES,
    progress: Callable[[int], object] | None = None,
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
    progress: Callable[[int], object] | None = None,
) -> list[Walk]:
    """The walk through each answer, in the order of the prompts; `places` of them decode at once.

    Raises:
        ValueError: as for `breakdown`.
    """
    check(checkpoint.engine, prompts, settings)
    method = METHODS[decoder](checkpoint.engine, settings)
    capacity = max(map(len, prompts)) + settings.max_new_tokens + method.lookahead
    pool = Pool(checkpoint.engine, min(places, len(prompts)), capacity)
    for number, prompt in enumerate(prompts):
        control = Control(settings.threshold, settings.score)
        pool.join(Row(number=number, prompt=prompt, method=method, settings=settings, control=control))
    found: list[tuple[list[int], list[int], list[float]]] = [([], [], []) for _ in prompts]
    while (record := pool.step()) is not None:
        for part in record.rows:
            ids, starts, scores = found[part.row]
            if record.phase in COUNTED:
                starts.append(part.start)
                scores.append(part.proposals[0].score)
                ids += part.accepted_ids
            if progress is not None and part.finish_reason is not None:
                progress(1)
    return [Walk(ids=tuple(ids), starts=tuple(starts), scores=tuple(scores)) for ids, starts, scores in found]


def _counts(question: Question, walk: Walk, ids: Sequence[int], entropies: Sequence[float]) -> dict[str, Any]:
    """Of one answer; where it is not AR's text, only the tokens before the first difference have an entropy."""
    same = next((place for place, pair in enumerate(zip(walk.ids, ids, strict=False)) if len({*pair}) > 1), None)
    known = min(len(walk.ids), len(ids)) if same is None else same
    return {
        "number": question.number,
        "category": question.category,
        "tokens": len(walk.ids),
        "passes": len(walk.starts),
        "same": walk.ids == tuple(ids),
        "position": _binned(POSITIONS, range(len(walk.ids)), walk.starts),
        "entropy": _binned(ENTROPIES, entropies[:known], [start for start in walk.starts if start < known]),
    }


def _binned(edges: Sequence[float], values: Sequence[float], starts: Sequence[int]) -> list[tuple[int, int]]:
    """Tokens and passes of each bin; `values` are those of the tokens, and `starts` the tokens that begin a pass."""
    tokens, passes = [0] * len(edges), [0] * len(edges)
    for value in values:
        tokens[bisect_right(edges, max(value, edges[0])) - 1] += 1
    for start in starts:
        passes[bisect_right(edges, max(values[start], edges[0])) - 1] += 1
    return list(zip(tokens, passes, strict=True))

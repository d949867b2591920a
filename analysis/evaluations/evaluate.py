"""Held-out accuracy of a checkpoint under a decoder, and the cost of its tokens.

Problems are decoded family by family, by their numbers, `batch_size` at a time. Every row of a batch gets the same
result as alone, so in float32 the batch size changes the speed and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.stats.intervals import wilson_interval
from analysis.text_table import Columns, table_of
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.base import Decoder
from mars.metrics import Count, Tally, output_ids
from mars.records import ForwardPass
from mars.tasks import SEED_STRIDE, TASKS, Problem, numbered
from mars.tasks.base import MAX_SEED

WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The problems to decode: `problems` held-out ones of each of `tasks`, `batch_size` in one forward pass."""

    problems: int
    seed: int
    tasks: tuple[str, ...] = tuple(TASKS)
    batch_size: int = 16

    def __post_init__(self) -> None:
        unknown = [task for task in self.tasks if task not in TASKS]
        if unknown or not self.tasks or len(set(self.tasks)) < len(self.tasks):
            raise ValueError(
                f"tasks must be all or some of {', '.join(TASKS)}, each once, got {', '.join(self.tasks)!r}"
            )
        if not 1 <= self.problems <= SEED_STRIDE:
            raise ValueError(f"problems must be between 1 and {SEED_STRIDE}, got {self.problems}")
        if not 0 <= self.seed < MAX_SEED // SEED_STRIDE:
            raise ValueError(f"seed must be >= 0 and < {MAX_SEED // SEED_STRIDE}, got {self.seed}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {self.batch_size}")

    def batches(self, task: str) -> Iterator[list[Problem]]:
        """The problems of one family, in order."""
        for first in range(0, self.problems, self.batch_size):
            numbers = range(first, min(first + self.batch_size, self.problems))
            yield [numbered(task, self.seed, number) for number in numbers]

    def in_turn(self) -> list[Problem]:
        """All problems, the families taking turns."""
        return [numbered(task, self.seed, number) for number in range(self.problems) for task in self.tasks]


@dataclass(slots=True, kw_only=True)
class Score(Count):
    """Problems taken together. `seconds` is the device time of all passes, prefill and drafts included."""

    n: int
    correct: int

    @classmethod
    def total(cls, scores: Iterable[Score]) -> Score:
        """The score of all their problems."""
        names, parts = ("n", "correct", "tokens", "passes", "draft_passes", "seconds"), list(scores)
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in names})

    @property
    def accuracy(self) -> float:
        """Share of the problems that are right, 0 to 1."""
        return self.correct / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy."""
        return wilson_interval(self.correct, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The score of each family, in the order they were run."""

    threshold: float | None
    scores: dict[str, Score]

    @property
    def overall(self) -> Score:
        """All problems. Families have equally many, so its accuracy is the mean of theirs."""
        return Score.total(self.scores.values())


def evaluate(
    checkpoint: Checkpoint,
    decoder: str,
    settings: DecodingSettings,
    plan: Plan,
    progress: Callable[[int], object] = lambda _: None,
) -> Evaluation:
    """Decode the problems of `plan` and check the answers; `progress` gets the number of problems just done.

    A few uncounted tokens are decoded first, so that the start-up of the device counts for no family.

    Raises:
        ValueError: the decoder is unknown or cannot run this checkpoint, or a prompt does not fit its context.
    """
    decoders.check_name(decoder)
    decode = DECODERS[decoder]
    short = replace(settings, max_new_tokens=min(settings.max_new_tokens, WARM_UP_TOKENS))
    _decode(checkpoint, decode, short, next(plan.batches(plan.tasks[0])))
    scores: dict[str, Score] = {}
    threshold = None
    for task in plan.tasks:
        batches = []
        for problems in plan.batches(task):
            records = _decode(checkpoint, decode, settings, problems)
            batches.append(_scored(checkpoint, problems, records))
            threshold = records[-1].rows[0].threshold
            progress(len(problems))
        scores[task] = Score.total(batches)
    return Evaluation(threshold=threshold, scores=scores)


def _decode(
    checkpoint: Checkpoint, decode: Decoder, settings: DecodingSettings, problems: Sequence[Problem]
) -> list[ForwardPass]:
    return list(decode(checkpoint.engine, [checkpoint.encode(problem.prompt) for problem in problems], settings))


def _scored(checkpoint: Checkpoint, problems: Sequence[Problem], records: Sequence[ForwardPass]) -> Score:
    """The score of one batch."""
    tally = Tally.of(records)
    texts = [checkpoint.decode(output_ids(records, row)) for row in range(len(problems))]
    right = (TASKS[problem.task].check(problem, text) for problem, text in zip(problems, texts, strict=True))
    return Score(
        n=len(problems),
        correct=sum(right),
        tokens=tally.tokens,
        passes=tally.passes,
        draft_passes=tally.draft_passes,
        seconds=tally.seconds,
    )


COLUMNS: Columns[tuple[str, Score]] = (
    ("task", lambda named: named[0]),
    ("n", lambda named: str(named[1].n)),
    ("accuracy", lambda named: f"{named[1].accuracy:.1%}"),
    ("95 % interval", lambda named: " to ".join(f"{end:.1%}" for end in named[1].interval)),
    ("tokens/forward", lambda named: f"{named[1].tokens_per_forward:.2f}"),
    ("tok/s", lambda named: f"{named[1].tokens_per_second:.0f}"),
)
DRAFTED: Columns[tuple[str, Score]] = (
    ("draft passes/forward", lambda named: f"{named[1].draft_passes / named[1].passes:.2f}"),
)


def to_table(evaluation: Evaluation) -> str:
    """One line per family and one for their mean, columns aligned; with a draft model, how often it ran per pass."""
    scores = {**evaluation.scores, "mean": evaluation.overall}
    return table_of(scores.items(), (*COLUMNS, *(DRAFTED if evaluation.overall.draft_passes else ())))


def to_dict(evaluation: Evaluation) -> dict[str, Any]:
    """The object that `--json` writes: shares between 0 and 1, seconds of device time, `n` over all families."""
    scores, overall = evaluation.scores, evaluation.overall
    return {
        "accuracy": {"mean": overall.accuracy, **{task: score.accuracy for task, score in scores.items()}},
        "interval": {"mean": overall.interval, **{task: score.interval for task, score in scores.items()}},
        "tokens_per_forward": overall.tokens_per_forward,
        "tokens_per_forward_by_task": {task: score.tokens_per_forward for task, score in scores.items()},
        "tokens_per_second": overall.tokens_per_second,
        "n": overall.n,
        "n_by_task": {task: score.n for task, score in scores.items()},
        "tokens": overall.tokens,
        "passes": overall.passes,
        "draft_passes": overall.draft_passes,
        "seconds": overall.seconds,
        "threshold": evaluation.threshold,
    }

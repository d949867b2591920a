"""An evaluation as a table for people and as a dictionary for programs."""

from __future__ import annotations

from typing import Any

from analysis.evaluations.evaluate import Evaluation, Score
from analysis.text_table import aligned

COLUMNS = ("task", "n", "accuracy", "95 % interval", "tokens/forward", "tok/s")
DRAFTED = "draft passes/forward"


def to_table(evaluation: Evaluation) -> str:
    """One line per family and one for their mean, columns aligned; with a draft model, how often it ran per pass."""
    scores = {**evaluation.scores, "mean": evaluation.overall}
    lines = [COLUMNS, *(_line(task, score) for task, score in scores.items())]
    if evaluation.overall.draft_passes:
        drafted = (f"{score.draft_passes / score.passes:.2f}" for score in scores.values())
        lines = [(*line, cell) for line, cell in zip(lines, [DRAFTED, *drafted], strict=True)]
    return aligned(lines)


def to_dict(evaluation: Evaluation) -> dict[str, Any]:
    """The object that `--json` writes: shares between 0 and 1, seconds of device time, `n` over all families."""
    scores, overall = evaluation.scores, evaluation.overall
    return {
        "accuracy": {"mean": overall.accuracy, **{task: score.accuracy for task, score in scores.items()}},
        "interval": {"mean": overall.interval, **{task: score.interval for task, score in scores.items()}},
        "tokens_per_forward": overall.count.tokens_per_forward,
        "tokens_per_forward_by_task": {task: score.count.tokens_per_forward for task, score in scores.items()},
        "tokens_per_second": overall.count.tokens_per_second,
        "n": overall.n,
        "n_by_task": {task: score.n for task, score in scores.items()},
        "tokens": overall.tokens,
        "passes": overall.passes,
        "draft_passes": overall.draft_passes,
        "seconds": overall.seconds,
        "threshold": evaluation.threshold,
    }


def _line(name: str, score: Score) -> tuple[str, ...]:
    low, high = score.interval
    return (
        name,
        str(score.n),
        f"{score.accuracy:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{score.count.tokens_per_forward:.2f}",
        f"{score.count.tokens_per_second:.0f}",
    )

"""The results of the harness by task: rows for the run store, and the figures that the command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from lm_eval.api.model import hash_args

from analysis.harness.journal import Journal
from analysis.harness.model import GENERATE
from analysis.harness.tasks import Planned
from analysis.stats.intervals import wilson_interval
from analysis.text_table import Columns, shown

_TOLD = (
    *("task", "metric", "n", "score", "correct", "interval", "tokens_per_forward", "tokens_per_second", "truncated"),
    "run",
)
_KEPT = ("tokens", "passes", "seconds", "model_seconds", "finish_reason", "acceptance_lengths", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One task. `score` is its metric over all questions; `correct` how many answers are right, None where the metric
    does not say that of each; `rows` those of the run store, None where nothing was written. `truncated` prompts lost
    their beginnings, None if the run store had it before. `run` is the id there.
    """

    task: str
    metric: str
    n: int
    score: float
    correct: int | None
    rows: pd.DataFrame | None = None
    truncated: int | None = None
    run: str | None = None

    @property
    def storable(self) -> bool:
        """Whether the run store can hold it."""
        return self.rows is not None and self.correct is not None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % Wilson interval of the share of right answers."""
        return None if self.correct is None else wilson_interval(self.correct, self.n)

    @property
    def tokens_per_forward(self) -> float | None:
        """Over all answers; None where nothing was written."""
        return None if self.rows is None else float(self.rows["tokens"].sum() / self.rows["passes"].sum())

    @property
    def tokens_per_second(self) -> float | None:
        """Over all answers; None where nothing was written."""
        return None if self.rows is None else float(self.rows["tokens"].sum() / self.rows["seconds"].sum())


def found(plan: Planned, results: Mapping[str, Any], journal: Journal) -> Finding:
    """The result of one task, from the `results` of the harness.

    Raises:
        ValueError: a question was asked in several requests.
    """
    samples = [sample for sample in results["samples"][plan.name] if sample["filter"] == plan.harness["filter"]]
    values = [sample[plan.harness["metric"]] for sample in samples]
    judged = all(isinstance(value, bool | int | float) and value in (0, 1) for value in values)
    finding = Finding(
        task=plan.name,
        metric=plan.metric,
        n=len(samples),
        score=float(results["results"][plan.name][plan.metric]),
        correct=sum(map(int, values)) if judged else None,
    )
    return finding if plan.request is None else _with_rows(finding, samples, values, journal)


def recalled(plan: Planned, rows: pd.DataFrame, run: str) -> Finding:
    """The result of a task from the rows of a run in the store; these do not say which prompts were truncated."""
    correct = int(rows["correct"].sum())
    return Finding(
        task=plan.name,
        metric=plan.metric,
        n=len(rows),
        score=correct / len(rows),
        correct=correct,
        rows=rows,
        run=run,
    )


def _with_rows(
    finding: Finding, samples: Sequence[Mapping[str, Any]], values: Sequence[Any], journal: Journal
) -> Finding:
    rows = []
    truncated = 0
    for sample, value in zip(samples, values, strict=True):
        if len(sample["arguments"]) != 1:
            raise ValueError(
                f"task {finding.task} asks question {sample['doc_id']} in {len(sample['arguments'])} requests: only "
                "one is supported"
            )
        result = journal[hash_args(GENERATE, sample["arguments"][0])]
        truncated += result["truncated"]
        kept = {column: result[column] for column in _KEPT}
        rows.append({"task": finding.task, "number": sample["doc_id"], "correct": value == 1, **kept})
    return replace(finding, rows=pd.DataFrame(rows), truncated=truncated)


def _score(finding: Finding) -> str:
    return f"{finding.score:.4g}" if finding.correct is None else f"{finding.score:.1%}"


COLUMNS: Columns[Finding] = (
    ("task", lambda each: each.task),
    ("metric", lambda each: each.metric),
    ("n", lambda each: str(each.n)),
    ("score", _score),
    ("95 % interval", lambda each: " to ".join(f"{end:.1%}" for end in each.interval) if each.interval else "–"),
    ("tokens/forward", lambda each: shown(each.tokens_per_forward, ".2f")),
    ("tok/s", lambda each: shown(each.tokens_per_second, ".0f")),
)


def to_dict(finding: Finding) -> dict[str, Any]:
    """The object that `--json` writes for one task."""
    return {name: getattr(finding, name) for name in _TOLD}

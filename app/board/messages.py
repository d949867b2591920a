"""The messages of a score board to its page: lines of JSON, as in `app.compare.stream`, which `board.js` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from app.board.lane import Outcome
from app.board.plan import BATCH, Plan
from app.compare import problems
from app.compare.stream import Card, Refusal, Status
from mars import tasks
from mars.records import FinishReason
from mars.schema import StrictDict

LONGEST_TEXT = 4_000  # characters of one answer that are shown


class Problem(StrictDict):
    """A problem of the board, with its family in words and the known answer."""

    task: str
    family: str
    seed: int
    prompt: str
    answer: str


class Opening(StrictDict):
    """The first message: the problems and the lanes."""

    kind: Literal["open"]
    id: str
    date: str
    count: int
    task: str
    first: int
    limit: int
    batch: int
    lanes: list[Card]
    problems: list[Problem]


class LanesLoaded(StrictDict):
    """The lanes, now with their checkpoints loaded, and the baseline; None if no lane can write."""

    kind: Literal["met"]
    lanes: list[Card]
    baseline: str | None


class ProblemsBegun(StrictDict):
    """A lane has begun these problems."""

    kind: Literal["writing"]
    lane: str
    problems: list[int]


class ProblemDone(StrictDict):
    """A lane is through with a problem."""

    kind: Literal["wrote"]
    lane: str
    problem: int
    right: bool
    text: str
    tokens: int
    passes: int
    reason: FinishReason


class Pairs(StrictDict):
    """Counts of the `n` problems that a lane and the baseline have both finished, by which of the two has them right.

    `p` is that of the exact McNemar test, two-sided.
    """

    n: int
    both: int
    onlyBaseline: int
    onlyThis: int
    p: float


class Score(StrictDict):
    """The row of a lane; a value that is not known yet is None. `interval` is Wilson's, 95 %.

    `tokens`, `passes` and `tokensPerForward` count every pass so far, `tokensPerProblem` the problems that are over.
    `tokensPerSecond` covers finished batches only: towards the end of a batch fewer rows share each pass, so lanes
    could not be compared. `speedup` covers the batches that the baseline has finished too. `threshold` is that of the
    latest pass, `inactive` says why the lane writes one token per pass at it, `turned` says that it has changed.
    """

    kind: Literal["score"]
    lane: str
    n: int
    right: int
    interval: list[float] | None
    tokens: int
    passes: int
    tokensPerForward: float
    tokensPerProblem: float | None
    tokensPerSecond: float | None
    speedup: float | None
    pairs: Pairs | None
    threshold: float | None
    turned: bool
    inactive: str | None


Message = Annotated[
    Opening | LanesLoaded | ProblemsBegun | ProblemDone | Score | Status | Refusal, Field(discriminator="kind")
]
"""Whatever a score board tells its page."""


def opening(identity: str, date: str, plan: Plan, chosen: Sequence[tasks.Problem], lanes: Sequence[Card]) -> Opening:
    """The first message: the problems and the lanes. `lanes` are as `app.compare.stream.lane` introduces them."""
    labels = {name: label for label, name in problems.family_choices()}
    return {
        "kind": "open",
        "id": identity,
        "date": date,
        "count": plan.count,
        "task": plan.task,
        "first": plan.first,
        "limit": plan.max_new_tokens,
        "batch": BATCH,
        "lanes": list(lanes),
        "problems": [
            {
                "task": problem.task,
                "family": labels[problem.task],
                "seed": problem.seed,
                "prompt": problem.prompt,
                "answer": problems.known_answer(problem),
            }
            for problem in chosen
        ],
    }


def wrote(key: str, number: int, outcome: Outcome) -> ProblemDone:
    """A lane is through with a problem."""
    cut = len(outcome.text) > LONGEST_TEXT
    return {
        "kind": "wrote",
        "lane": key,
        "problem": number,
        "right": outcome.right,
        "text": outcome.text[:LONGEST_TEXT] + "…" if cut else outcome.text,
        "tokens": outcome.tokens,
        "passes": outcome.passes,
        "reason": outcome.reason,
    }

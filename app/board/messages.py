"""What travels to the page while a score board fills: lines of JSON as in `app.stream`, drawn by `board.js`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app import problems
from app.board.contestant import Outcome
from app.board.plan import BATCH, Plan
from app.board.standing import Standing
from app.stream import Message
from mars.tasks import Problem

LONGEST_TEXT = 4_000  # characters of one answer that are shown


def opening(identity: str, date: str, plan: Plan, asked: Sequence[Problem], lanes: Sequence[Message]) -> Message:
    """The first message: what is asked of whom; `lanes` are as `app.stream.lane` introduces them."""
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
            for problem in asked
        ],
    }


def met(lanes: Sequence[Message], baseline: str | None) -> Message:
    """The lanes once their checkpoints are there, and which one the others are compared with, if any can write."""
    return {"kind": "met", "lanes": list(lanes), "baseline": baseline}


def writing(key: str, numbers: Iterable[int]) -> Message:
    """A lane has begun these problems."""
    return {"kind": "writing", "lane": key, "problems": list(numbers)}


def wrote(key: str, number: int, outcome: Outcome) -> Message:
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


def score(key: str, standing: Standing, threshold: float | None, inactive: str | None) -> Message:
    """The row of a lane; `threshold` was in force in its latest pass, `inactive` says why that was for one token."""
    pairs = standing.pairs
    return {
        "kind": "score",
        "lane": key,
        "n": standing.n,
        "right": standing.right,
        "interval": standing.interval and [round(end, 5) for end in standing.interval],
        "tokens": standing.tokens,
        "passes": standing.passes,
        "tokensPerForward": round(standing.tokens_per_forward, 4),
        "tokensPerProblem": _rounded(standing.tokens_per_problem, 2),
        "tokensPerSecond": _rounded(standing.tokens_per_second, 2),
        "speedup": _rounded(standing.speed_up, 4),
        "pairs": pairs
        and {
            "n": pairs.n,
            "both": pairs.both,
            "onlyBaseline": pairs.only_baseline,
            "onlyThis": pairs.only_this,
            "p": round(pairs.p_value, 5),
        },
        "threshold": threshold,
        "turned": standing.turned,
        "inactive": inactive,
    }


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places)

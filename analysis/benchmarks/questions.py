"""The questions of Spec-Bench (Xia et al., arXiv 2401.07851): the file, its categories, and the groups it reports.

MT-bench's eight categories, whose questions have two turns, form one group; each of the other five is its own group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mars.schema import Open, must_be, parse

QUESTIONS = Path("assets/benchmarks/spec_bench/question.jsonl")
MT_BENCH = "mt_bench"
MT_BENCH_CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
OTHERS = ("translation", "summarization", "qa", "math_reasoning", "rag")
CATEGORIES = (*MT_BENCH_CATEGORIES, *OTHERS)
GROUPS = (MT_BENCH, *OTHERS)
OVERALL = "overall"
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Open):
    """A question, turn by turn; `number` is its question_id."""

    number: Annotated[int, Field(ge=0, alias="question_id")]
    category: Annotated[str, must_be(f"one of {', '.join(CATEGORIES)}", CATEGORIES.__contains__)]
    turns: Annotated[tuple[Text, ...], Field(min_length=1)]

    @property
    def group(self) -> str:
        """The part of Spec-Bench's report that it belongs to."""
        return MT_BENCH if self.category in MT_BENCH_CATEGORIES else self.category

    @property
    def first_turn(self) -> Question:
        """The same without its later turns."""
        return replace(self, turns=self.turns[:1])


def read_questions(path: Path = QUESTIONS, limit: int | None = None) -> list[Question]:
    """The questions of a file, in its order; `limit` keeps the first ones of each category.

    Raises:
        ValueError: one sentence that names the file, the line and the field at fault.
    """
    taken: dict[str, int] = {}
    kept = []
    for question in read_each(path, limit, Question, "number"):
        taken[question.category] = taken.get(question.category, 0) + 1
        if limit is None or taken[question.category] <= limit:
            kept.append(question)
    return kept


def read_each(path: Path, limit: int | None, kind: Any, key: str) -> list[Any]:
    """The lines of a JSON Lines file as objects of this kind, each with another value in the field `key`.

    Raises:
        ValueError: the file cannot be read or holds nothing, a line is no such object, or the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be >= 1, got {limit}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    found = [parse(kind, line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ValueError(f"{path} must hold at least one line, got none")
    if len({getattr(each, key) for each in found}) < len(found):
        raise ValueError(f"{path}: each line needs a {key} of its own, and some share one")
    return found


def parts_of(questions: Sequence[Question]) -> dict[str, list[Question]]:
    """The questions by part of the report: the groups, then MT-bench's categories, then all; without empty parts."""
    by = {category: [question for question in questions if question.category == category] for category in CATEGORIES}
    groups = {group: [question for question in questions if question.group == group] for group in GROUPS}
    parts = {**groups, **{name: by[name] for name in MT_BENCH_CATEGORIES}, OVERALL: list(questions)}
    return {name: part for name, part in parts.items() if part}


def fingerprint(questions: Sequence[Any]) -> str:
    """16 hex digits: the same for the same questions, wherever their file lies."""
    return hashlib.sha256("\n".join(map(repr, questions)).encode()).hexdigest()[:16]

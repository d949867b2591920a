"""The questions of Spec-Bench (Xia et al., arXiv 2401.07851): the file, its categories, and the groups it reports.

MT-bench's eight categories, whose questions have two turns, form one group; each of the other five is its own group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

QUESTIONS = Path("assets/benchmarks/spec_bench/question.jsonl")
MT_BENCH = "mt_bench"
MT_BENCH_CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
OTHERS = ("translation", "summarization", "qa", "math_reasoning", "rag")
CATEGORIES = (*MT_BENCH_CATEGORIES, *OTHERS)
GROUPS = (MT_BENCH, *OTHERS)
OVERALL = "overall"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, turn by turn; `number` is its question_id."""

    number: int
    category: str
    turns: tuple[str, ...]

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
    found = read_each(path, limit, _question, "question_id")
    taken: dict[str, int] = {}
    kept = []
    for question in found:
        taken[question.category] = taken.get(question.category, 0) + 1
        if limit is None or taken[question.category] <= limit:
            kept.append(question)
    return kept


def read_each(path: Path, limit: int | None, read: Callable[[dict[str, Any], str], _T], key: str) -> list[_T]:
    """The results of `read` for each object of a JSON Lines file and the words that name its line.

    Raises:
        ValueError: as of `read`, the file cannot be read, the limit is below 1, or two lines have one `key`.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be >= 1, got {limit}")
    lines = list(_lines(path))
    found = [read(data, where) for where, data in lines]
    if len({data[key] for _, data in lines}) < len(found):
        raise ValueError(f"{path}: {key} must be unique, and some lines share one")
    return found


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with the words that name its line.

    Raises:
        ValueError: the file cannot be read, holds nothing, or a line is no object.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not any(line.strip() for line in lines):
        raise ValueError(f"{path} must hold at least one line, got none")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                data = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: is not JSON: {error}") from error
            if not isinstance(data, dict):
                raise ValueError(f"{path}, line {number}: must be an object, got {type(data).__name__}")
            yield f"{path}, line {number}", data


def parts_of(questions: Sequence[Question]) -> dict[str, list[Question]]:
    """The questions by part of the report: the groups, then MT-bench's categories, then all; without empty parts."""
    by = {category: [question for question in questions if question.category == category] for category in CATEGORIES}
    groups = {group: [question for question in questions if question.group == group] for group in GROUPS}
    parts = {**groups, **{name: by[name] for name in MT_BENCH_CATEGORIES}, OVERALL: list(questions)}
    return {name: part for name, part in parts.items() if part}


def fingerprint(questions: Sequence[Any]) -> str:
    """16 hex digits: the same for the same questions, wherever their file lies."""
    return hashlib.sha256("\n".join(map(repr, questions)).encode()).hexdigest()[:16]


def _question(data: dict[str, Any], where: str) -> Question:
    number, category, turns = (data.get(name) for name in ("question_id", "category", "turns"))
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{where}: question_id must be a whole number >= 0, got {number!r}")
    if category not in CATEGORIES:
        raise ValueError(f"{where}: category must be one of {', '.join(CATEGORIES)}, got {category!r}")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise ValueError(f"{where}: turns must be a list of texts, got {turns!r}")
    return Question(number=number, category=str(category), turns=tuple(turns))

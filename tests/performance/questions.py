"""The questions of a load test, the client that asks the lanes, and what their answers are beside those of AR."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx

from analysis.benchmarks.ifeval import Check, Prompt, load_checkers, read_prompts
from analysis.benchmarks.questions import read_questions
from analysis.runs.loads import Changes, InTime, Outcome
from mars.tasks import TASKS, sample
from tests.performance.asking import Asked, ask, chat, quantile
from tests.performance.lanes import SAME_TEXT
from tests.performance.traces import Answers, Trace
from tests.performance.verdict import counted, faster

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and whether an answer to it is right, where that can be said."""

    prompt: str
    is_right: Callable[[str], bool] | None = None


def questions_of(
    count: int, seed: int, prompts: Path | None = None, instructions: Path | None = None
) -> list[Question]:
    """Problems of all families in turn, or questions of a file, drawn at random: first turns, or IFEval's prompts.

    Raises:
        ValueError: the file cannot be read or has fewer, or the checks of IFEval are not installed.
    """
    if instructions is not None:
        followed = load_checkers().followed
        asked = _drawn(read_prompts(instructions), count, seed, instructions)
        return [Question(one.text, partial(_follows, followed, one)) for one in asked]
    if prompts is None:
        kinds = list(TASKS)
        problems = [sample(kinds[number % len(kinds)], seed + number) for number in range(count)]
        return [Question(one.prompt, partial(TASKS[one.task].check, one)) for one in problems]
    return [Question(one.turns[0]) for one in _drawn(read_questions(prompts), count, seed, prompts)]


def _follows(followed: Check, prompt: Prompt, text: str) -> bool:
    """Whether a text follows all instructions of its prompt."""
    return all(followed(prompt, text))


def _drawn(found: Sequence[T], count: int, seed: int, file: Path) -> list[T]:
    if count > len(found):
        raise ValueError(f"--questions must be at most {len(found)}, as many as {file} has, got {count}")
    return random.Random(seed).sample(found, count)


class Judge:
    """Compares the answers of lanes with those of AR alone; `texts` are these, by the number of the question."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._judged: dict[tuple[int, str], bool] = {}
        self.texts: list[str] = []

    def outcome(
        self,
        lane: str,
        load: str,
        seconds: float,
        found: Answers,
        limits: InTime,
        base: Answers = (),
    ) -> Outcome:
        """The outcome of a trace on a lane; `base` are AR's answers to the same arrivals, if it is not AR's own."""
        done = [(question, asked) for question, asked in found if asked.finish is not None]
        first = [asked.first for _, asked in done if asked.first is not None]
        each = [per_token for _, asked in done if (per_token := asked.per_token) is not None]
        in_time = counted([found], limits)
        judged = [right for answer in found if (right := self._is_right(answer)) is not None]
        return Outcome(
            lane=lane,
            load=load,
            offered=len(found) / seconds,
            requests=len(found),
            refused=len(found) - len(done),
            goodput=in_time / seconds,
            tokens_per_second=sum(asked.tokens for _, asked in done) / seconds,
            ttft=(quantile(first, 0.5), quantile(first, 0.99)) if first else None,
            tpot=(quantile(each, 0.5), quantile(each, 0.99)) if each else None,
            wrong=sum(asked.text != self.texts[question] for question, asked in done) if lane in SAME_TEXT else 0,
            right=sum(judged),
            judged=len(judged),
            against_ar=self._changes(found, base) if base else None,
            faster=faster(found, base) if base else None,
        )

    def _is_right(self, answer: tuple[int, Asked]) -> bool | None:
        """Whether an answer is right; None where there is none, or it cannot be judged."""
        question, asked = answer
        check, key = self._questions[question].is_right, (question, asked.text)
        if check is None or asked.finish is None:
            return None
        if key not in self._judged:
            self._judged[key] = check(asked.text)
        return self._judged[key]

    def pairs(self, found: Answers, base: Answers) -> list[tuple[int, bool, bool]]:
        """The number of the question and whether both sides are right, for each arrival that is judged on both."""
        judged = [(one[0], self._is_right(one), self._is_right(other)) for one, other in zip(found, base, strict=True)]
        return [(number, ours, theirs) for number, ours, theirs in judged if ours is not None and theirs is not None]

    def _changes(self, found: Answers, base: Answers) -> Changes | None:
        """How the answers differ from `base`, arrival by arrival; None where none is judged on both sides."""
        pairs = self.pairs(found, base)
        if not pairs:
            return None
        return Changes(
            n=len(pairs),
            gained=sum(ours and not theirs for _, ours, theirs in pairs),
            lost=sum(theirs and not ours for _, ours, theirs in pairs),
        )


def warming(places: int, questions: int) -> Iterator[list[int]]:
    """The questions of each group that a lane gets at once before it is measured: some alone, and all by many."""
    most = max(2 * places, min(questions, 5 * places))
    for size, count in ((1, 2), (2, 4), (4, 8), (places, most)):
        for first in range(0, count, size):
            yield [number % questions for number in range(first, min(first + size, count))]


class Load(Judge):
    """Asks one server."""

    def __init__(self, client: httpx.AsyncClient, questions: Sequence[Question], tokens: int) -> None:
        super().__init__(questions)
        self._client = client
        self._tokens = tokens
        self._usual_tokens = 1.0

    async def ask(self, lane: str, question: int) -> Asked:
        """One request to a lane."""
        return await ask(self._client, chat(self._questions[question].prompt, self._tokens, model=lane))

    async def alone(self) -> list[Asked]:
        """Every question to AR, one after the other: what all must write."""
        found = [await self.ask("ar", number) for number in range(len(self._questions))]
        self.texts = [one.text for one in found]
        self._usual_tokens = max(statistics.fmean(one.tokens for one in found), 1.0)
        return found

    async def warm(self, lane: str, clients: int) -> None:
        """Ask a lane some questions one by one, some in pairs, and all by many at once."""
        for group in warming(clients, len(self._questions)):
            await asyncio.gather(*(self.ask(lane, number) for number in group))

    async def saturation(self, lane: str, clients: int, before: float, seconds: float) -> float:
        """Requests a second that a lane answers with so many clients that never wait, `seconds` long after `before`.

        Tokens are counted, those of an answer as if they came evenly: its length says less, and so does its end.
        """
        start = time.perf_counter() + before
        end = start + seconds
        numbers, tokens = itertools.cycle(range(len(self._questions))), 0.0

        async def client() -> None:
            nonlocal tokens
            while (began := time.perf_counter()) < end:
                asked = await self.ask(lane, next(numbers))
                ended = time.perf_counter()
                tokens += asked.tokens * max(min(ended, end) - max(began, start), 0.0) / (ended - began)

        await asyncio.gather(*(client() for _ in range(clients)))
        return tokens / seconds / self._usual_tokens

    async def play(self, lane: str, trace: Trace) -> list[tuple[int, Asked]]:
        """The requests of a trace at their times; returns when all are answered."""

        async def one(when: float, question: int) -> tuple[int, Asked]:
            await asyncio.sleep(when)
            return question, await self.ask(lane, question)

        return list(await asyncio.gather(*(one(*arrival) for arrival in trace)))

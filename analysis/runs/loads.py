"""Load tests in the run store: requests that arrived at random, the same for each lane. No torch here.

A load test is one file beside the runs, `load.<model>.<hash>.json`, and not a run: it has no row for each problem.
`python -m tests.performance.arrivals --save FOLDER` writes it, `analysis.figures.under_load` draws it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from analysis.runs.files import replace_file
from mars.schema import Strict, as_json, must_be, parse

PATTERN = "load.*.json"
_MOST_BYTES = 4_000_000
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Times = tuple[NotNegative, NotNegative]
"""Seconds, p50 and p99."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Strict):
    """Answers beside those of AR to the same arrivals: of `n` judged pairs, one side alone is right in some.

    `gained` only this lane has right, `lost` only AR. A question that arrived twice counts twice.
    """

    n: Annotated[int, Field(ge=1)]
    gained: Count
    lost: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Faster(Strict):
    """AR's seconds per further token over those of a lane, for the same arrivals: what one user gains.

    The geometric mean over `n` questions, each of them the mean of its arrivals, with Student's 95 % interval.
    """

    n: Annotated[int, Field(ge=2)]
    value: Positive
    low: Positive
    high: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Strict):
    """The goodput of `lane` over that of `other` under the same arrivals, with a 95 % interval.

    Of `n` requests, `gained` had an answer in time from this lane alone, `lost` from the other alone. `load` is that of
    an outcome, or `all`.
    """

    load: Annotated[str, Field(max_length=100)]
    lane: Annotated[str, Field(max_length=100)]
    other: Annotated[str, Field(max_length=100)]
    n: Annotated[int, Field(ge=1)]
    gained: Count
    lost: Count
    value: NotNegative
    low: NotNegative
    high: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Strict):
    """A lane under one trace of arrivals.

    `load` is the rate as a share of saturation, or `bursts`; `offered` is in requests a second, `goodput` in requests
    answered in time a second. `ttft` is the time to the first token, `tpot` that of each further one; None if no
    request got so far. `wrong` counts texts that differ from AR's though they must not; `right` of the `judged` answers
    are correct. `against_ar` is None for AR itself, if no answer is judged, and in load tests older than the field;
    `faster` is None for AR itself, with fewer than two questions, and in older load tests.
    """

    lane: Annotated[str, Field(max_length=100)]
    load: Annotated[str, Field(max_length=100)]
    offered: NotNegative
    requests: Count
    refused: Count
    goodput: NotNegative
    tokens_per_second: NotNegative
    ttft: Times | None
    tpot: Times | None
    wrong: Count
    right: Count
    judged: Count
    against_ar: Annotated[Changes | None, Field(exclude_if=lambda changes: changes is None)] = None
    faster: Annotated[Faster | None, Field(exclude_if=lambda faster: faster is None)] = None
    """Both are left out where there is none, so that older files keep the names that their contents give them."""

    @property
    def in_time(self) -> int:
        """How many requests were answered in time."""
        return round(self.requests * self.goodput / self.offered) if self.offered else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InTime(Strict):
    """Seconds to the first token, and to each further one, of an answer that counts as in time."""

    ttft: Positive
    tpot: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest(Strict):
    """All lanes under all traces, with provenance.

    `saturation` is the most requests a second that AR can answer, `tpot_alone` its seconds a token for a single
    request, `seconds` the length of each trace, `thresholds` those of the policy `knob`, `bounds` those of its relaxed
    verification. Lanes answer over HTTP in real time, one after the other; or `in_turn`, passes of all lanes by turns,
    each lane on a simulated clock of its own.
    """

    schema: Literal[1]
    model: Annotated[str, Field(max_length=200)]
    command: str
    commit: str | None
    hardware: str
    threads: Annotated[int, Field(ge=1)]
    torch: str
    transformers: str
    python: str
    date: Annotated[str, must_be("a date of ISO 8601", datetime.fromisoformat)]
    dtype: str
    places: Annotated[int, Field(ge=1)]
    saturation: Positive
    tpot_alone: NotNegative
    limits: InTime
    seconds: Positive
    tokens: Annotated[int, Field(ge=1)]
    questions: Annotated[int, Field(ge=1)]
    seed: int
    thresholds: tuple[float, ...]
    results: Annotated[tuple[Outcome, ...], Field(min_length=1)]
    comparisons: Annotated[tuple[Comparison, ...], Field(exclude_if=lambda found: not found)] = ()
    in_turn: Annotated[bool, Field(exclude_if=lambda in_turn: not in_turn)] = False
    bounds: Annotated[tuple[float, ...], Field(exclude_if=lambda found: not found)] = ()
    """These are left out of files that have none, so that older ones keep the names that their contents give."""

    @property
    def id(self) -> str:
        """The name of its file, without the ending."""
        name = re.sub(r"[^A-Za-z0-9_@+=-]+", "-", self.model).strip("-")[:80] or "model"
        return f"load.{name}.{hashlib.sha256(as_json(self).encode()).hexdigest()[:10]}"


def write_load(folder: Path, test: LoadTest) -> Path:
    """Add a load test to the run store in `folder`; returns the file.

    Raises:
        ValueError: a field holds a value that it must not.
    """
    text = as_json(test)
    parse(LoadTest, text, "the load test")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{test.id}.json"
    replace_file(path, lambda place: Path(place).write_text(f"{text}\n", encoding="utf-8"))
    return path


def remove_loads(folder: Path, unwanted: Callable[[LoadTest], bool]) -> int:
    """Remove load tests; returns how many."""
    gone = [test for test in read_loads(folder)[0] if unwanted(test)]
    for test in gone:
        (folder / f"{test.id}.json").unlink(missing_ok=True)
    return len(gone)


def read_loads(folder: Path) -> tuple[list[LoadTest], list[str]]:
    """The load tests in `folder`, the newest first, and a sentence for each file that is not one."""
    found, problems = [], []
    for path in sorted(folder.glob(PATTERN)):
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
        try:
            found.append(parse(LoadTest, text))
        except ValueError as error:
            problems.append(f"{path.name}: {error}")
    return sorted(found, key=lambda test: (test.date, test.id), reverse=True), problems

"""The evidence that claims are judged by: measured runs and benchmark files. No torch here.

Runs are chosen by their models and decoding settings, never by their names. Runs of other models can be judged too, as
long as their training records say how they were made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.runs import RunStore
from analysis.runs.baseline import ArModels, is_plain, writes_one_token
from analysis.runs.schema import RunEntry, cpu_units
from analysis.runs.schema import RunModel as Model
from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.pairs import paired_difference, speed_up
from analysis.stats.resampling import accuracy, tokens_per_forward, tokens_per_second
from analysis.stats.strata import grouped, groups_of
from analysis.stats.turns import over_turns, time_gain
from analysis.studies import ADAPTER, MERGED
from mars.schema import checked

MARS, DIFFUSION = "mars", "block_diffusion"
_GONE = {Path(folder).name for folder in (ADAPTER, MERGED)}
SMALLEST_REAL = 50_000_000
"""Parameters from which a model counts as a real one: a pass over it is bound by reading weights."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(RunEntry):
    """An entry of the index, and what claims ask of it. Runs are equal by identity only."""

    @property
    def n(self) -> int:
        """Problems of all families."""
        return self.problems * len(self.tasks)

    @property
    def threshold(self) -> float | None:
        """None is one-token mode."""
        return self.settings.threshold

    @property
    def one_token(self) -> bool:
        """True if it writes one token per pass, and so the same text as AR decoding of these weights."""
        return writes_one_token(self.decoder, self.threshold)

    @property
    def units(self) -> str:
        """What its CPU has for bfloat16."""
        return cpu_units(self.hardware)

    @property
    def problem_set(self) -> Hashable:
        """Equal for runs whose texts can be compared."""
        machine = self.hardware if self.dtype == "bfloat16" else None  # texts differ from machine to machine
        asked = (*self.tasks, self.problems, self.seed, self.settings.max_new_tokens)
        return (asked, self.dtype, self.device, machine)

    @property
    def turn(self) -> Hashable:
        """Equal for runs whose seconds can be compared; None if untimed."""
        return None if self.group is None else (self.group, self.batch_size, self.problem_set)

    def has(self, **settings: Any) -> bool:
        """True if its settings have these values."""
        return all(getattr(self.settings, name) == value for name, value in settings.items())

    def same_window(self, other: Run) -> bool:
        """True if two runs of one model agree in the settings that decide what a window accepts."""
        names = ("threshold", "score", "block_size", "extra_proposal")
        return self.model == other.model and self.has(**{name: getattr(other.settings, name) for name in names})


class GreedyRuns:
    """The greedy runs of a store whose answers were judged, those on most problems first, with what claims compare.

    Runs of `unjudged` answers say what was written and how fast, not whether it was right. All are of the real models,
    or of the tiny ones.
    """

    def __init__(self, store: RunStore, *, real: bool = False) -> None:
        self._store = store
        entries = [entry for entry in store.entries if (entry["model"]["parameters"] >= SMALLEST_REAL) == real]
        self._ar = ArModels(entries)
        greedy: list[Run] = [checked(Run, entry) for entry in entries if is_plain(entry)]
        greedy.sort(key=lambda run: (-run.n, run.group is not None, run.batch_size, run.id))
        self.all = [run for run in greedy if run.judged]
        self.unjudged = [run for run in greedy if not run.judged]
        names: dict[str, set[str]] = {}
        for model in self.models(lambda _: True):
            names.setdefault(model.name, set()).add(model.fingerprint)
        self._ambiguous = {name for name, fingerprints in names.items() if len(fingerprints) > 1}

    # Measures of a run

    def rows(self, run: Run) -> pd.DataFrame:
        """Its rows, one per problem; questions of categories are resampled within these, as in the cards."""
        return grouped(self._store.rows(run.id), groups_of(run.tasks[0]))

    def accuracy(self, run: Run) -> Interval:
        """Its accuracy, from 0 to 1."""
        return accuracy(self.rows(run))

    def forward(self, run: Run, confidence: float = CONFIDENCE) -> Interval:
        """Its tokens per forward."""
        return tokens_per_forward(self.rows(run), confidence)

    def rate(self, run: Run) -> Interval:
        """Its tokens per second."""
        return tokens_per_second(self.rows(run))

    def points(self, run: Run, base: Run, confidence: float = CONFIDENCE) -> Interval:
        """How many points more accurate it is than `base` on the same problems."""
        return paired_difference(self.rows(run), self.rows(base)).score_interval(confidence)

    def time_gain(self, run: Run, base: Run, confidence: float = CONFIDENCE) -> Interval:
        """Its tokens per second over those of `base`: over turns where the rows tell them, else over problems."""
        return time_gain(self.rows(run), self.rows(base), confidence)

    def in_turns(self, run: Run, base: Run) -> bool:
        """Whether the rows of both tell enough turns for an interval over them."""
        return over_turns(self.rows(run), self.rows(base)) is not None

    def forward_gain(self, run: Run, base: Run, confidence: float = CONFIDENCE) -> Interval:
        """Its tokens per forward over those of `base`."""
        return speed_up(self.rows(run), self.rows(base), "tokens_per_forward", confidence)

    # Choosing runs and models

    def where(self, wanted: Callable[[Run], bool]) -> list[Run]:
        """The wanted runs, those on most problems first."""
        return [run for run in self.all if wanted(run)]

    def of(self, model: Model, decoder: str | None = None) -> list[Run]:
        """The runs of a model, or those with this decoder."""
        return self.where(lambda run: run.model == model and decoder in (None, run.decoder))

    def one_token(self, model: Model) -> list[Run]:
        """The runs of a model in one-token mode."""
        return [run for run in self.of(model) if run.one_token]

    def fastest(self, runs: Iterable[Run]) -> Run:
        """The run with the most tokens per second."""
        return max(runs, key=lambda run: self.rate(run).value)

    def with_threshold(self, model: Model, *, score: str = "probability", extra: bool = False) -> list[Run]:
        """The sliding_window runs of a model with a threshold, at the block size of its training."""
        return self.where(
            lambda run: (
                run.model == model
                and run.decoder == "sliding_window"
                and run.threshold is not None
                and run.has(score=score, extra_proposal=extra)
                and run.settings.block_size == (model.block_size or run.settings.block_size)
            )
        )

    def sweep(
        self, model: Model, score: str = "probability", beside: Iterable[Run] | None = None
    ) -> tuple[Run, list[Run]] | None:
        """One-token mode of a model, and its runs by threshold on the same problems, the strictest first.

        With `beside`, only problems that one of those runs had too.
        """
        compared = {run.problem_set for run in self.one_token(model)}
        if beside is not None:
            compared &= {run.problem_set for run in beside}
        runs = [run for run in self.with_threshold(model, score=score) if run.problem_set in compared]
        by_threshold = largest_group(runs, lambda run: run.threshold)
        found = on_same_problems(self.one_token(model), by_threshold.values())
        if found is None:
            return None
        ordered = sorted(by_threshold.values(), key=lambda run: run.threshold or 0.0, reverse=score != "entropy")
        return found[0], ordered

    def models(self, wanted: Callable[[Model], bool]) -> list[Model]:
        """The wanted models: those with most examples first, then by block size and name."""
        found = {run.model: None for run in self.all if wanted(run.model)}
        return sorted(found, key=lambda model: (-(model.examples or 0), model.block_size or 0, model.name))

    @property
    def full_mars(self) -> list[Model]:
        """The MARS models with the SFT loss."""
        return self.models(lambda model: model.is_full_mars)

    def name(self, model: Model) -> str:
        """Its name, with the number of its conversations where several models share the name; `_GONE` are marked."""
        if model.name not in self._ambiguous:
            return f"{model.name}{' (no longer shipped)' * (model.name in _GONE)}"
        seen = model.fingerprint[:6] if model.examples is None else f"{model.examples:,} conversations"
        return f"{model.name} ({seen})"

    def start_of(self, model: Model) -> Model | None:
        """The AR model that a MARS or diffusion model is compared with, as in the figures."""
        return self._with(self._ar.baseline_of(asdict(model)))

    def compute_matched(self, model: Model) -> Model | None:
        """The AR model that saw twice as many conversations: as many tokens as the two streams of MARS."""
        return self._with(self._ar.compute_matched(asdict(model)))

    def ablations(self) -> list[Model]:
        """The largest group of MARS models that saw equally much; they differ in block size and SFT loss."""
        groups: dict[Hashable, list[Model]] = {}
        for model in self.models(lambda model: model.stage == MARS):
            groups.setdefault((model.examples, model.parameters), []).append(model)
        return max(groups.values(), key=len, default=[])

    def _with(self, fingerprint: str | None) -> Model | None:
        return next(iter(self.models(lambda model: model.fingerprint == fingerprint)), None)


def on_same_problems(*choices: Iterable[Run]) -> list[Run] | None:
    """One run of each choice, all on one set of problems, the largest available; the first of each that fits."""
    lists = [list(choice) for choice in choices]
    if not all(lists):
        return None
    for first in lists[0]:
        found = [next((run for run in runs if run.problem_set == first.problem_set), None) for runs in lists]
        if all(found):
            return [run for run in found if run is not None]
    return None


def on_each_kind(runs: Iterable[Run], others: Iterable[Run]) -> list[tuple[Run, Run]]:
    """For each kind of problems that both have, those of the largest: a run of each, on one set, the largest available.

    A kind is a benchmark, or a choice of families.
    """
    kinds: dict[Hashable, tuple[list[Run], list[Run]]] = {}
    for place, side in enumerate((runs, others)):
        for run in side:
            kinds.setdefault(tuple(run.tasks), ([], []))[place].append(run)
    return [(found[0], found[1]) for pair in kinds.values() if (found := on_same_problems(*pair))]


def largest_group(runs: Iterable[Run], key: Callable[[Run], Hashable]) -> dict[Hashable, Run]:
    """One run for each value of `key`, all on one set of problems: that with most values, of several the largest."""
    groups: dict[Hashable, dict[Hashable, Run]] = {}
    for run in runs:
        groups.setdefault(run.problem_set, {}).setdefault(key(run), run)
    return max(groups.values(), key=lambda group: (len(group), next(iter(group.values())).n), default={})


def by_turn(runs: Iterable[Run]) -> list[list[Run]]:
    """Timed runs in lists that took turns: only seconds within one list can be compared. By group and batch size."""
    turns: dict[Hashable, list[Run]] = {}
    for run in runs:
        if run.group is not None:
            turns.setdefault(run.turn, []).append(run)
    return sorted(turns.values(), key=lambda turn: (str(turn[0].group), turn[0].batch_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Measured runs, and the files of `analysis bench --json` by name."""

    runs: GreedyRuns
    benches: dict[str, dict[str, Any]]


def read_evidence(store: RunStore, folder: Path, *, real: bool = False) -> Evidence:
    """The runs of a store, and the benchmark files beside them in `folder`: of the tiny models, or of the real ones."""
    benches = {name: bench for name, bench in _benches(folder).items() if _is_real(bench) == real}
    return Evidence(runs=GreedyRuns(store, real=real), benches=benches)


def _is_real(bench: dict[str, Any]) -> bool:
    """Whether a file of `analysis bench --json` is of a real model; earlier ones have the bytes of its weights."""
    size = 2 if bench.get("dtype") == "bfloat16" else 4
    earlier = int(bench.get("traffic", {}).get("weight_bytes", 0)) // size
    return int(bench.get("parameters", earlier)) >= SMALLEST_REAL


def _benches(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and {"results", "contestants", "hardware", "command", "n"} <= data.keys():
            found[path.name] = data
    return found

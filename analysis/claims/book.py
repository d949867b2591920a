"""Runs as the claims look for them: by what their models are and how they were decoded, never by their names.

So the runs of other models give a page of claims as well, as long as their training records say what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.runs import RunStore
from analysis.runs.schema import DEFAULT_SETTINGS
from analysis.stats.resampling import tokens_per_second

AR, MARS, DIFFUSION = "sft", "mars", "block_diffusion"
SIMILAR_SIZE = 0.05
"""Models whose parameters differ in number by less than this share are of one size: a mask token may be added."""
_ONE_TOKEN = ("autoregressive", "sliding_window", "block_cached")


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a run, as docs/runs.md has it."""

    name: str
    fingerprint: str
    parameters: int
    stage: str | None
    block_size: int | None
    sft_loss: bool | None
    examples: int | None

    @property
    def is_full_mars(self) -> bool:
        """A MARS model with the SFT loss, or one of which nobody says that it has none."""
        return self.stage == MARS and self.sft_loss is not False

    def as_large_as(self, other: Model) -> bool:
        """Whether both are of one size."""
        return abs(self.parameters - other.parameters) <= SIMILAR_SIZE * max(self.parameters, other.parameters)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """What an entry of the index says, as far as claims ask. Each is equal to itself only."""

    id: str
    model: Model
    draft: Model | None
    decoder: str
    settings: dict[str, Any]
    problem_set: Hashable
    n: int
    batch_size: int
    dtype: str
    device: str
    group: str | None
    command: str
    hardware: str

    @property
    def threshold(self) -> float | None:
        """None is one-token mode."""
        return None if self.settings["threshold"] is None else float(self.settings["threshold"])

    @property
    def one_token(self) -> bool:
        """Whether it writes one token per pass, so what AR decoding of the same weights writes."""
        return self.decoder == "autoregressive" or (self.decoder in _ONE_TOKEN and self.threshold is None)

    @property
    def place(self) -> str:
        """Where its seconds were taken, for people."""
        return f"{self.device}, batch {self.batch_size}"

    @property
    def turn(self) -> Hashable:
        """What runs share whose seconds can be compared; None of untimed ones."""
        return None if self.group is None else (self.group, self.batch_size, self.problem_set)

    def has(self, **settings: Any) -> bool:
        """Whether its settings are these."""
        return all(self.settings[name] == value for name, value in settings.items())


class Book:
    """The greedy runs of a store, those on most problems first."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        runs = [_run(entry) for entry in store.entries]
        greedy = [run for run in runs if run.has(temperature=0.0, use_cache=True)]
        self.runs = sorted(greedy, key=lambda run: (-run.n, run.group is not None, run.batch_size, run.id))
        names: dict[str, set[str]] = {}
        for model in self.models(lambda _: True):
            names.setdefault(model.name, set()).add(model.fingerprint)
        self._ambiguous = {name for name, fingerprints in names.items() if len(fingerprints) > 1}

    def rows(self, run: Run) -> pd.DataFrame:
        """Its rows, one a problem."""
        return self._store.rows(run.id)

    def where(self, wanted: Callable[[Run], bool]) -> list[Run]:
        """The runs that are wanted, those on most problems first."""
        return [run for run in self.runs if wanted(run)]

    def models(self, wanted: Callable[[Model], bool]) -> list[Model]:
        """The models that are wanted: those with most examples first, then by block size and name."""
        found = {run.model: None for run in self.runs if wanted(run.model)}
        return sorted(found, key=lambda model: (-(model.examples or 0), model.block_size or 0, model.name))

    def name(self, model: Model) -> str:
        """Its name, with how much it has seen where several models have that name."""
        if model.name not in self._ambiguous:
            return model.name
        seen = model.fingerprint[:6] if model.examples is None else f"{model.examples:,} conversations"
        return f"{model.name} ({seen})"

    def one_token(self, model: Model) -> list[Run]:
        """Its runs in one-token mode."""
        return [run for run in self.of(model) if run.one_token]

    def of(self, model: Model, decoder: str | None = None) -> list[Run]:
        """Its runs, or those with this decoder."""
        return self.where(lambda run: run.model == model and decoder in (None, run.decoder))

    def fastest(self, runs: Iterable[Run]) -> Run:
        """The run with the highest throughput of runs that took turns."""
        return max(runs, key=lambda run: tokens_per_second(self.rows(run)).value)

    def start_of(self, model: Model) -> Model | None:
        """The AR model that a MARS or diffusion model is compared with: of its size, the one with most runs.

        One that has seen twice as many conversations is the compute-matched one, unless there is no other.
        """
        found = self.models(lambda other: other.stage == AR and other.as_large_as(model))
        others = [other for other in found if other != self._twice(found, model)] or found
        return max(others, key=lambda other: len(self.one_token(other)), default=None)

    def compute_matched(self, model: Model) -> Model | None:
        """The AR model that has seen twice as many conversations: as many tokens as the two streams of MARS."""
        found = self.models(lambda other: other.stage == AR and other.as_large_as(model))
        twice = self._twice(found, model)
        return None if twice == self.start_of(model) else twice

    def ablations(self) -> list[Model]:
        """The MARS models of the largest group that has seen equally much: they differ in block size and SFT loss."""
        groups: dict[Hashable, list[Model]] = {}
        for model in self.models(lambda model: model.stage == MARS):
            groups.setdefault((model.examples, model.parameters), []).append(model)
        return max(groups.values(), key=len, default=[])

    @staticmethod
    def _twice(found: Sequence[Model], model: Model) -> Model | None:
        return next((other for other in found if model.examples and other.examples == 2 * model.examples), None)


def on_same_problems(*choices: Iterable[Run]) -> list[Run] | None:
    """One run of each, all on one set of problems, the largest there is; the first of each that fits."""
    lists = [list(choice) for choice in choices]
    if not all(lists):
        return None
    for first in lists[0]:
        found = [next((run for run in runs if run.problem_set == first.problem_set), None) for runs in lists]
        if all(found):
            return [run for run in found if run is not None]
    return None


def largest_group(runs: Iterable[Run], key: Callable[[Run], Hashable]) -> dict[Hashable, Run]:
    """Of runs that share their problems the most by `key`: one run for each value of it."""
    groups: dict[Hashable, dict[Hashable, Run]] = {}
    for run in runs:
        groups.setdefault(run.problem_set, {}).setdefault(key(run), run)
    return max(groups.values(), key=len, default={})


def by_turn(runs: Iterable[Run]) -> dict[Hashable, list[Run]]:
    """Timed runs by the turns they took: only the seconds of runs in one list can be compared."""
    turns: dict[Hashable, list[Run]] = {}
    for run in runs:
        if run.group is not None:
            turns.setdefault(run.turn, []).append(run)
    return dict(sorted(turns.items(), key=lambda turn: (str(turn[1][0].group), turn[1][0].batch_size)))


def _run(entry: dict[str, Any]) -> Run:
    settings = {**DEFAULT_SETTINGS, **entry["settings"]}
    problem_set = (
        *(tuple(entry["tasks"]), entry["problems"], entry["seed"], settings["max_new_tokens"]),
        *(entry["dtype"], entry["device"]),
    )
    return Run(
        id=entry["id"],
        model=_model(entry["model"]),
        draft=None if entry["draft"] is None else _model(entry["draft"]),
        decoder=entry["decoder"],
        settings=settings,
        problem_set=problem_set,
        n=entry["problems"] * len(entry["tasks"]),
        batch_size=entry["batch_size"],
        dtype=entry["dtype"],
        device=entry["device"],
        group=entry["group"],
        command=entry["command"],
        hardware=entry["hardware"],
    )


def _model(entry: dict[str, Any]) -> Model:
    return Model(**{name: entry[name] for name in Model.__slots__})

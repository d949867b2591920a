"""Runs as the claims look for them: by what their models are and how they were decoded, never by their names.

So the runs of other models give a page of claims as well, as long as their training records say what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict

import pandas as pd

from analysis.claims.entries import DIFFUSION, MARS, Model, Run, run_of
from analysis.runs import RunStore
from analysis.runs.baseline import AR, ArModels, is_plain
from analysis.stats.resampling import tokens_per_second

__all__ = ["AR", "DIFFUSION", "MARS", "Book", "Model", "Run", "by_turn", "largest_group", "on_same_problems"]


class Book:
    """The greedy runs of a store, those on most problems first."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._ar = ArModels(store.entries)
        greedy = [run_of(entry) for entry in store.entries if is_plain(entry)]
        self.runs = sorted(greedy, key=lambda run: (-run.n, run.group is not None, run.batch_size, run.id))
        names: dict[str, set[str]] = {}
        for model in self.models(lambda _: True):
            names.setdefault(model.name, set()).add(model.fingerprint)
        self._ambiguous = {name for name, fingerprints in names.items() if len(fingerprints) > 1}

    def rows(self, run: Run) -> pd.DataFrame:
        """Its rows, one a problem."""
        return self._store.rows(run.id)

    def proposals(self, run: Run) -> pd.DataFrame:
        """The mask proposals that a run kept.

        Raises:
            ValueError: it kept none.
        """
        found = self._store.proposals(run.id)
        if found is None:
            raise ValueError(f"the run {run.id} kept no mask proposals")
        return found

    def proposing(self, model: Model) -> Run | None:
        """The run of a model that kept its mask proposals, scored by probability, on most problems."""
        kept = (run for run in self.of(model) if run.has(score="probability"))
        return next((run for run in kept if self._store.proposals(run.id) is not None), None)

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
        """The AR model that a MARS or diffusion model is compared with, in the figures as well."""
        return self._with(self._ar.baseline_of(asdict(model)))

    def compute_matched(self, model: Model) -> Model | None:
        """The AR model that has seen twice as many conversations: as many tokens as the two streams of MARS."""
        return self._with(self._ar.compute_matched(asdict(model)))

    def ablations(self) -> list[Model]:
        """The MARS models of the largest group that has seen equally much: they differ in block size and SFT loss."""
        groups: dict[Hashable, list[Model]] = {}
        for model in self.models(lambda model: model.stage == MARS):
            groups.setdefault((model.examples, model.parameters), []).append(model)
        return max(groups.values(), key=len, default=[])

    def _with(self, fingerprint: str | None) -> Model | None:
        return next(iter(self.models(lambda model: model.fingerprint == fingerprint)), None)


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

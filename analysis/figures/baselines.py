"""The baselines of the runs of a store: the AR model for accuracy, the AR run of the same turns for speed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.words import BASELINE_DECODER
from analysis.runs import RunStore
from analysis.runs.baseline import ArModels, is_plain, speed_baselines

Row = dict[str, Any]

_ALIKE = ("seed", "settings.max_new_tokens")


class Baselines:
    """The baselines in a store with this `table`; a run has the AR baseline of its model (`analysis.runs.baseline`)."""

    def __init__(self, runs: RunStore, table: pd.DataFrame) -> None:
        self._runs = runs
        plain = table[table["decoder"] == BASELINE_DECODER]
        self._timed: list[Row] = plain[plain["timed"].astype(bool)].to_dict("records")
        greedy = {entry["id"] for entry in runs.entries if is_plain(entry)}
        ordered = plain[plain["id"].isin(greedy)].sort_values(["n", "id"], ascending=[False, True])
        self._plain: list[Row] = ordered.to_dict("records")
        ar = ArModels(runs.entries)
        self._models = {entry["id"]: ar.baseline_of(entry["model"]) for entry in runs.entries}
        self._weights = {
            entry["id"]: (entry["model"]["fingerprint"], entry["model"].get("base")) for entry in runs.entries
        }
        self._found: dict[Any, tuple[str, pd.DataFrame] | None] = {}

    def model_of(self, row: Row) -> str | None:
        """The fingerprint of the AR baseline of this run; None where no AR model of its size was run."""
        return self._models[row["id"]]

    def has_weights_of(self, row: Row, ar: str) -> bool:
        """Whether the AR run of this id is of the run's own model, or of its adapter's base."""
        return self._weights[ar][0] in self._weights[row["id"]]

    def usual(self) -> str | None:
        """The fingerprint of the AR baseline of most runs."""
        found = pd.Series(self._models, dtype=object).dropna()
        return None if found.empty else str(found.mode()[0])

    def accuracy_of(self, row: Row) -> tuple[str, pd.DataFrame] | None:
        """Id and rows of the AR baseline on the problems of this run, if it was run on all of them, at this length."""
        model = self.model_of(row)
        alike = {"model.fingerprint": model, **{name: row[name] for name in _ALIKE}}
        key = (*alike.values(), row["tasks"], row["problems"])
        if key not in self._found:
            wanted = self._runs.rows(row["id"])[["task", "number"]]
            own = [run for run in self._plain if all(run[name] == value for name, value in alike.items())]
            pairs = ((str(other["id"]), self._runs.rows(other["id"]).merge(wanted)) for other in own)
            self._found[key] = next((pair for pair in pairs if len(pair[1]) == len(wanted)), None)
        return self._found[key]

    def speed_of(self, row: Row) -> tuple[str, pd.DataFrame] | None:
        """Id and rows of the autoregressive run that took turns with this one.

        This is a run of the AR baseline if there is one, so that accuracy and speed are compared with the same model;
        else one of the same weights.
        """
        if not row["timed"]:
            return None
        turn = ("group", "batch_size", "seed", "tasks", "problems")
        here = [other for other in self._timed if all(other[name] == row[name] for name in turn)]
        ordered = speed_baselines(row["model.fingerprint"], here, lambda run: (run["model.fingerprint"], run["id"]))
        ordered.sort(key=lambda run: run["model.fingerprint"] != self.model_of(row))
        return (str(ordered[0]["id"]), self._runs.rows(ordered[0]["id"])) if ordered else None

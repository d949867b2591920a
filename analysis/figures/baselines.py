"""What the runs of a store are compared with: AR for accuracy, the autoregressive run of the same turn for speed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.words import BASELINE_DECODER
from analysis.runs import RunStore

Row = dict[str, Any]
_ONE_SIZE = 0.05
"""Models whose numbers of parameters differ by less than this share are of one size: a mask token may be added."""


class Baselines:
    """Of a store, whose table is `table`.

    The AR baseline of a run is the SFT model of its size with most autoregressive runs, of several the one that saw
    most conversations.
    """

    def __init__(self, runs: RunStore, table: pd.DataFrame) -> None:
        self._runs = runs
        plain = table[table["decoder"] == BASELINE_DECODER]
        self._timed: list[Row] = plain[plain["timed"].astype(bool)].to_dict("records")
        sft = plain[plain["model.stage"] == "sft"]
        counts = sft["model.fingerprint"].map(sft["model.fingerprint"].value_counts())
        order = ["counts", "model.examples", "model.fingerprint", "n", "id"]
        ordered = sft.assign(counts=counts).sort_values(order, ascending=[False, False, True, False, True])
        self._ar: list[Row] = ordered.to_dict("records")
        self._found: dict[Any, tuple[str, pd.DataFrame] | None] = {}

    def model_of(self, row: Row) -> str | None:
        """The fingerprint of the AR baseline of this run; None where no AR model of its size was run."""
        size = row["model.parameters"]
        similar = (other for other in self._ar if abs(other["model.parameters"] - size) <= _ONE_SIZE * size)
        return next((str(other["model.fingerprint"]) for other in similar), None)

    def usual(self, table: pd.DataFrame) -> str | None:
        """The fingerprint of the AR baseline of most runs."""
        found = pd.Series([self.model_of(row) for row in table.to_dict("records")]).dropna()
        return None if found.empty else str(found.mode()[0])

    def accuracy_of(self, row: Row) -> tuple[str, pd.DataFrame] | None:
        """Id and rows of the AR baseline on the problems of this run, if it was run on all of them."""
        model = self.model_of(row)
        key = (model, row["seed"], row["tasks"], row["problems"])
        if key not in self._found:
            wanted = self._runs.rows(row["id"])[["task", "number"]]
            own = [other for other in self._ar if other["model.fingerprint"] == model and other["seed"] == row["seed"]]
            pairs = ((str(other["id"]), self._runs.rows(other["id"]).merge(wanted)) for other in own)
            self._found[key] = next((pair for pair in pairs if len(pair[1]) == len(wanted)), None)
        return self._found[key]

    def speed_of(self, row: Row) -> pd.DataFrame | None:
        """Rows of the autoregressive run that took turns with this one, on the same weights if there is one."""
        if not row["timed"]:
            return None
        turn = ("group", "batch_size", "seed", "tasks", "problems")
        here = [other for other in self._timed if all(other[name] == row[name] for name in turn)]
        here.sort(key=lambda other: (other["model.fingerprint"] != row["model.fingerprint"], other["id"]))
        return self._runs.rows(here[0]["id"]) if here else None

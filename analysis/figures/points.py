"""From runs to points: the table of runs with an interval for every measure, once; figures draw parts of it.

Each row also says what its run is compared with, so that a filter never takes the baseline away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from analysis.figures.words import missing, named
from analysis.runs import RunStore
from analysis.runs.baseline import ArModels, is_plain, writes_one_token
from analysis.runs.schema import is_judged
from analysis.stats.intervals import Interval
from analysis.stats.pairs import identical_texts, paired_difference
from analysis.stats.resampling import accuracy, ratio_of_sums, tokens_per_forward, tokens_per_second
from analysis.stats.strata import grouped, groups_of
from analysis.stats.turns import time_gain
from mars.decoders import BASELINE, TABLE

ACCURACY, PER_FORWARD, PER_SECOND, SPEEDUP = "accuracy", "tokens_per_forward", "tokens_per_second", "speedup"
SAME_TEXT, AGREEMENT, AR_ACCURACY, LOSS, POINTS = "same_text", "agreement", "ar_accuracy", "loss", "points"
MEASURES = (ACCURACY, PER_FORWARD, PER_SECOND, SPEEDUP, SAME_TEXT, AGREEMENT, AR_ACCURACY, LOSS, POINTS)
POOLED = "all families"
_DIGITS = 12
"""Values that differ by rounding alone are one: an axis that spans nothing else has no ticks."""
_SAME_JUDGE = ("model", "draft", "tasks", "seed", "dtype", "hardware")
_ALIKE = ("seed", "settings.max_new_tokens", "dtype")
"""The columns that a run and its AR baseline share beside the problems; in bfloat16 also the hardware."""


def measure(
    runs: RunStore,
    *,
    families: Sequence[str] = (POOLED,),
    progress: Callable[[int], object] = lambda _: None,
) -> pd.DataFrame:
    """The table of `runs` with the columns that figures need.

    For each of MEASURES X the columns X, X_low and X_high, NaN where a run has none: shares for accuracies, points for
    `points`, run − AR baseline on the same problems, and for the loss, their negative, with `gained` and `lost` as in
    `PairedDifference`; `agreement` is the share of tokens that one-token mode writes behind the same prefix. Runs that
    were not timed have no tokens per second; those that nobody judged have no accuracy and no loss. A timed run has the
    accuracy of the run with the same setting on most of such problems: texts do not depend on the clock; `n` is the
    number of these, `own_n` that of its own, behind its tokens, its speed and `same_text`. `ar_run` is
    the id of the AR run that took turns with it, in the same group at the same batch size: speed-ups are over it, and
    `same_text` is the share of its texts that are that run's, or the AR baseline's where there is none, if that is of
    the same weights or of its adapter's base. `baseline` is the id of the AR baseline, `task` the family; with
    `families` a run has one row for each in place of one over all. The columns of `named` say what marks are called.
    `progress` is told after each run.
    """
    table = runs.table()
    baselines = _Baselines(runs, table)
    measured = []
    for row in table.to_dict("records"):
        tasks = [task for task in families if task == POOLED or task in row["tasks"]]
        measured += [row | {"task": task} | _measured(runs, row, task, baselines) for task in tasks]
        progress(1)
    intervals = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    columns = list(dict.fromkeys([*table.columns, "task", "own_n", "baseline", "ar_run", "gained", "lost", *intervals]))
    return named(pd.DataFrame(measured, columns=columns), baselines.usual())


def _measured(runs: RunStore, row: dict[str, Any], task: str, baselines: _Baselines) -> dict[str, Any]:
    rows = _of(runs.rows(row["id"]), task)
    judged = not missing(row[ACCURACY])
    judge = baselines.judge_of(row) if judged and row["timed"] else row
    judge = row if baselines.accuracy_of(judge) is None else judge
    marked = _of(runs.rows(judge["id"]), task)
    timed, baseline = baselines.speed_of(row), baselines.accuracy_of(judge) if judged else None
    found = dict.fromkeys(MEASURES, Interval()) | ({ACCURACY: accuracy(marked)} if judged else {})
    flat: dict[str, Any] = {"n": len(marked), "own_n": len(rows)}
    if "agreeing" in rows:
        found[AGREEMENT] = _or_none(lambda each: ratio_of_sums(each, "agreeing", "tokens"), rows)
    found[PER_FORWARD] = _or_none(tokens_per_forward, rows)
    if row["timed"]:
        found[PER_SECOND] = _or_none(tokens_per_second, rows)
    if timed is not None:
        flat["ar_run"], theirs = timed[0], _of(timed[1], task)
        found[SPEEDUP] = _or_none(time_gain, rows, theirs)
        if baselines.has_weights_of(row, timed[0]):
            found[SAME_TEXT] = _or_none(identical_texts, rows, theirs)
    if baseline is not None:
        flat["baseline"], theirs = baseline[0], _of(baseline[1], task)
        found[AR_ACCURACY] = accuracy(theirs)
        if timed is None and baselines.has_weights_of(row, baseline[0]):
            found[SAME_TEXT] = _or_none(identical_texts, marked, theirs)
        difference = paired_difference(marked, theirs)
        flat |= {"gained": difference.gained, "lost": difference.lost}
        itself = judge["id"] == baseline[0] and row["decoder"] == BASELINE  # AR does not differ from itself
        found[POINTS] = Interval(0.0) if itself else difference.score_interval()
        found[LOSS] = found[POINTS].scaled(-1)
    for name, interval in found.items():
        ends = interval.columns(name).items()
        flat |= {column: round(value, _DIGITS) + 0.0 for column, value in ends}  # + 0.0: no minus before a zero
    return flat


def _of(rows: pd.DataFrame, task: str) -> pd.DataFrame:
    """The rows of this family; questions by their categories, the strata of their resamples, as in the claims."""
    part = rows if task == POOLED else rows[rows["task"] == task]
    return grouped(part, groups_of(str(part["task"].iloc[0]))) if len(part) else part


def _or_none(measure: Callable[..., Interval], *rows: pd.DataFrame) -> Interval:
    """The measure, or nothing where these rows have none: no passes, no seconds, other problems than the baseline."""
    try:
        return measure(*rows)
    except ValueError:
        return Interval()


class _Baselines:
    """The baselines in a store with this `table`; a run has the AR baseline of its model (`analysis.runs.baseline`)."""

    def __init__(self, runs: RunStore, table: pd.DataFrame) -> None:
        self._runs = runs
        self._entries = {entry["id"]: entry for entry in runs.entries}
        self._table = table.to_dict("records")
        self._judges: dict[Any, dict[str, dict[str, Any]]] = {}
        plain = table[table["decoder"] == BASELINE]
        self._timed: list[dict[str, Any]] = plain[plain["timed"].astype(bool)].to_dict("records")
        greedy = {entry["id"] for entry in runs.entries if is_plain(entry)}
        ordered = plain[plain["id"].isin(greedy)].sort_values(["n", "id"], ascending=[False, True])
        self._plain: list[dict[str, Any]] = ordered.to_dict("records")
        ar = ArModels(runs.entries)
        self._models = {entry["id"]: ar.baseline_of(entry["model"]) for entry in runs.entries}
        self._weights = {
            entry["id"]: (entry["model"]["fingerprint"], entry["model"].get("base")) for entry in runs.entries
        }
        self._found: dict[Any, tuple[str, pd.DataFrame] | None] = {}

    def judge_of(self, row: dict[str, Any]) -> dict[str, Any]:
        """The run that says how accurate a timed one is: of many problems, if all that took turns have such a run."""
        turn = ("group", "batch_size", "hardware", "problems")
        key = tuple(row[name] for name in turn)
        if key not in self._judges:
            group = [other for other in self._table if tuple(other[name] for name in turn) == key]
            found = {other["id"]: self._best_judge(other) for other in group}
            whole = len({judge["n"] for judge in found.values()}) == 1
            self._judges[key] = found if whole else {other["id"]: other for other in group}
        return self._judges[key][row["id"]]

    def _best_judge(self, row: dict[str, Any]) -> dict[str, Any]:
        """The run that says how accurate a timed one is: of its setting and machine, the one with most such problems.

        For an exact decoder it may be one-token mode of the same weights, if that wrote all its texts.
        """
        own, entry = self._runs.rows(row["id"]), self._entries[row["id"]]
        most, best = len(own), row
        for other in self._table:
            theirs = self._entries[other["id"]]
            if other["n"] <= most or any(entry[name] != theirs[name] for name in _SAME_JUDGE) or not is_judged(theirs):
                continue
            same = entry["decoder"] == theirs["decoder"] and entry["settings"] == theirs["settings"]
            exact = (
                (info := TABLE.get(entry["decoder"]))
                and info.exact
                and writes_one_token(theirs["decoder"], theirs["settings"].get("threshold"))
            )
            texts = self._runs.rows(other["id"]).merge(own, on=["task", "number"]) if same or exact else own[:0]
            if len(texts) == len(own) and (same or (texts["text_x"] == texts["text_y"]).all()):
                most, best = other["n"], other
        return best

    def has_weights_of(self, row: dict[str, Any], ar: str) -> bool:
        """Whether the AR run of this id is of the run's own model, or of its adapter's base."""
        return self._weights[ar][0] in self._weights[row["id"]]

    def usual(self) -> str | None:
        """The fingerprint of the AR baseline of most runs."""
        found = pd.Series(self._models, dtype=object).dropna()
        return None if found.empty else str(found.mode()[0])

    def accuracy_of(self, row: dict[str, Any]) -> tuple[str, pd.DataFrame] | None:
        """Id and rows of the AR baseline on the problems of this run, if it was run on all of them, at this length.

        In bfloat16 one that took turns with it comes before others, since texts depend on the kernels too.
        """
        names, turn = (_ALIKE, ()) if row["dtype"] == "float32" else ((*_ALIKE, "hardware"), ("group", "batch_size"))
        alike = {"model.fingerprint": self._models[row["id"]], **{name: row[name] for name in names}}
        key = (*alike.values(), row["tasks"], row["problems"], *(row[name] for name in turn))
        if key not in self._found:
            wanted = self._runs.rows(row["id"])[["task", "number"]]
            own = [run for run in self._plain if all(run[name] == value for name, value in alike.items())]
            own.sort(key=lambda run: any(run[name] != row[name] for name in turn))
            pairs = ((str(other["id"]), self._runs.rows(other["id"]).merge(wanted)) for other in own)
            self._found[key] = next((pair for pair in pairs if len(pair[1]) == len(wanted)), None)
        return self._found[key]

    def speed_of(self, row: dict[str, Any]) -> tuple[str, pd.DataFrame] | None:
        """Id and rows of the autoregressive run that took turns with this one.

        This is a run of the AR baseline if there is one, so that accuracy and speed are compared with the same model;
        else one of the same weights, which writes the same text.
        """
        if not row["timed"]:
            return None
        turn = ("group", "batch_size", "seed", "tasks", "problems")
        here = [other for other in self._timed if all(other[name] == row[name] for name in turn)]
        preferred = self._models[row["id"]], row["model.fingerprint"]
        here.sort(key=lambda run: (*(run["model.fingerprint"] != weights for weights in preferred), run["id"]))
        return (str(here[0]["id"]), self._runs.rows(here[0]["id"])) if here else None

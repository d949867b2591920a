"""The operating point of a selection: the fastest setting that surely loses less than so many points, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from analysis.figures import POOLED, frontier_points
from analysis.figures.words import BASELINE_DECODER, PUBLISHED, Row, decoder_words, model_words, threshold_words
from analysis.stats import Candidate, OperatingPoint, operating_point
from app.tradeoffs.library import Store

PER_FORWARD, PER_SECOND, SPEEDUP = "tokens_per_forward", "tokens_per_second", "speedup"
_UNITS = {PER_FORWARD: "tokens per forward", PER_SECOND: "tokens a second", SPEEDUP: "times the speed of AR"}
_ROUNDS_TO_NOTHING = 0.05
_DRAFTED = "speculative"
_UNCOUNTED = (
    "Decoding with a draft model is left out: tokens per forward count the passes of the target alone, so compare it "
    "in tok/s."
)
_SAME_PROBLEMS = ["baseline", "seed", "tasks", "problems"]
_SAME_CLOCK = ["group", "batch_size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sentence, and the run that it names, None where there is none."""

    sentence: str
    chosen: str | None = None


def findings(
    store: Store, table: pd.DataFrame, rows: pd.DataFrame, *, points: float, against: str, task: str = POOLED
) -> list[Finding]:
    """One for the selection `rows` of `table`; against seconds one for each batch size, whose runs alone share a clock.

    Candidates are the marks that the frontier would have, compared on the same problems as AR: of several sets of
    problems that of most runs is taken. In tokens per forward a run with a draft model is none, for the draft's passes
    are not among those counted.
    """
    found = rows[(rows["source"] != PUBLISHED) & rows["loss"].notna()]
    drafted = (found["decoder"] == _DRAFTED) & (against == PER_FORWARD)
    found = frontier_points(found[~_is_ar(found, table) & ~drafted], against=against)
    parts = list(_parts(found, against))
    if not parts:
        timed = " that took turns with it on the clock" if against != PER_FORWARD else ""
        sentence = f"The selection has no run on the same problems as AR{timed}, so there is no operating point."
        return [Finding(sentence=sentence)]
    told = []
    for part in parts:
        key = ("operating", tuple(part["id"]), points, against, task)
        point = store.remembered(key, partial(_point, store, part, points, against, task))
        told.append(_told(point, part, against, _ar_name(table, part)))
    return [replace(finding, sentence=f"{finding.sentence} {_UNCOUNTED}") for finding in told] if any(drafted) else told


def _is_ar(found: pd.DataFrame, table: pd.DataFrame) -> pd.Series:
    """Which runs are the baseline itself, whatever its batch size."""
    models = set(table.loc[table["id"].isin(found["baseline"]), "model.fingerprint"])
    return found["model.fingerprint"].isin(models) & (found["decoder"] == BASELINE_DECODER)


def _parts(found: pd.DataFrame, against: str) -> Iterator[pd.DataFrame]:
    """Runs that can be compared with each other: those of most runs, on the clock for each batch size."""
    if found.empty:
        return
    sizes = [part for _, part in found.groupby("batch_size")] if against != PER_FORWARD else [found]
    keys = _SAME_PROBLEMS + (_SAME_CLOCK if against != PER_FORWARD else [])
    for part in sizes:
        groups = [group for _, group in part.groupby(keys, sort=True, dropna=False)]
        yield max(groups, key=len)


def _point(store: Store, part: pd.DataFrame, points: float, against: str, task: str) -> OperatingPoint:
    first = part.iloc[0]
    rows = {run: _of(store.runs.rows(run), task) for run in part["id"]}
    wanted = rows[first["id"]][["task", "number"]]
    baseline = store.runs.rows(str(first["baseline"])).merge(wanted)
    speed = PER_FORWARD if against == PER_FORWARD else PER_SECOND  # one clock: the order is that of the speed-ups
    return operating_point(rows, baseline, points=points, speed=speed)


def _of(rows: pd.DataFrame, task: str) -> pd.DataFrame:
    return rows if task == POOLED else rows[rows["task"] == task]


def _told(point: OperatingPoint, part: pd.DataFrame, against: str, ar: str) -> Finding:
    count, problems = len(point.candidates), int(part["n"].iloc[0])
    tried = f"{count} setting{'s' * (count != 1)} tried on {problems:,} problems"
    sure = f"{100 * point.confidence:.0f} %"
    where = f"At batch size {int(part['batch_size'].iloc[0])}, " if against != PER_FORWARD else ""
    if point.chosen is None:
        nearest = min(point.candidates, key=lambda candidate: candidate.loss_at_most)
        sentence = (
            f"no setting of the selection surely loses less than {point.points:g} points to {ar}: the nearest may "
            f"lose {nearest.loss_at_most:.1f} ({sure} confidence, {tried}). Stay with AR, allow more "
            "points, or measure more problems."
        )
        return Finding(sentence=_begin(where, sentence))
    row = part[part["id"] == point.chosen.name].iloc[0].to_dict()
    sentence = (
        f"the fastest is {setting_words(row)}, with {_interval(row, against)} {_UNITS[against]}; "
        f"against {ar} {_loss(point.chosen, sure)} ({tried})."
    )
    return Finding(sentence=_begin(where, sentence), chosen=point.chosen.name)


def _begin(where: str, sentence: str) -> str:
    return where + sentence if where else sentence[0].upper() + sentence[1:]


def _loss(chosen: Candidate, sure: str) -> str:
    loss, at_most = -chosen.difference.points.value, chosen.loss_at_most
    if at_most < _ROUNDS_TO_NOTHING:
        gained = "" if abs(loss) < _ROUNDS_TO_NOTHING else f"gains {-loss:.1f} points and "
        return f"it {gained}loses nothing, with {sure} confidence"
    limit = f"with {sure} confidence less than {at_most:.1f}"
    if abs(loss) < _ROUNDS_TO_NOTHING:
        return f"it loses nothing, {limit} points"
    return f"it loses {loss:.1f} points, {limit}" if loss > 0 else f"it gains {-loss:.1f} points, and loses {limit}"


def _interval(row: Row, name: str) -> str:
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


def _ar_name(table: pd.DataFrame, part: pd.DataFrame) -> str:
    return f"AR ({table.loc[table['id'] == part['baseline'].iloc[0], 'model'].iloc[0]})"


def setting_words(row: Row) -> str:
    """Model, decoder and threshold of a run in a line."""
    words: list[Any] = [model_words(row), decoder_words(row), threshold_words(row)]
    return " · ".join(word for word in words if word)

"""Runs that can be compared, and which of them a figure shows first.

In throughput, runs compare if they took turns on one machine. In tokens per forward, which need no clock, it is enough
that the runs answered the same problems on the same hardware and have the same AR baseline. Runs of other models,
hardware or numbers of problems form another set, never another line of the same figure.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2

import pandas as pd

from analysis.figures.points import PER_FORWARD
from analysis.figures.style import BASELINE_RANK
from analysis.figures.words import Row, drafts_words, joined, model_words, task_words
from mars import decoders

MOST_SERIES, MOST_SETS = 6, 5
"""That are shown; an address can name another set."""
_SAME_PROBLEMS = ["hardware", "device", "dtype", "tasks", "problems", "seed", "baseline"]
_SAME_TURNS = ["hardware", "device", "dtype", "tasks", "problems", "seed", "group"]
_MOST_NAMES = 2
_NAMES = ["model", "model.name", "draft.name"]  # what `model_words` reads; records of all columns take much longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """One set: its `name` in addresses, its `label` for people, the families of its problems, the ids of its runs."""

    name: str
    label: str
    tasks: tuple[str, ...]
    ids: frozenset[str]


def sets(table: pd.DataFrame, against: str) -> list[Together]:
    """The sets of the measured runs that have this measure: judged ones first, then by size of model, then by problems.

    Those in which no pass wrote more than a token come last. The first set of each model and kind of problems comes
    before further ones, such as of other batch sizes. Of runs that nobody judged, those of one timed group form a set.
    """
    ours = table[table[against].notna()]
    if against == PER_FORWARD:
        keys, ours = _SAME_PROBLEMS, ours.assign(baseline=ours["baseline"].fillna(ours["group"]))
    else:
        keys = _SAME_TURNS
    groups = [
        (key, rows)
        for key, rows in ours.groupby(keys, sort=True, dropna=False)
        if len(references(rows, against)) and (rows["decoder"] != decoders.BASELINE).any()  # something to compare
    ]
    groups.sort(key=lambda found: (against == PER_FORWARD and not (found[1][against] > 1).any(), _rank(found[1])))
    kinds = [(next(_models(rows)), rows["tasks"].iloc[0]) for _, rows in groups]
    groups = [groups[n] for n in sorted(range(len(groups)), key=lambda n: kinds.index(kinds[n]) < n)]
    labels = _labels([rows for _, rows in groups])
    return [
        Together(
            name=hashlib.sha256(repr(key).encode()).hexdigest()[:8],
            label=label,
            tasks=tuple(rows["tasks"].iloc[0]),
            ids=frozenset(rows["id"]),
        )
        for (key, rows), label in zip(groups, labels, strict=True)
    ]


def references(rows: pd.DataFrame, against: str) -> pd.DataFrame:
    """The AR runs that the others are compared with: one, or in throughput one for each batch size.

    If the AR baseline was run on more problems than these runs, the AR run on the same problems replaces it.
    """
    if against != PER_FORWARD or not rows["baseline"].notna().any():
        return rows[rows["id"].isin(rows["ar_run"])]
    found = rows[rows["id"].isin(rows["baseline"])]
    return rows[rows["decoder"] == decoders.BASELINE].head(1) if found.empty else found


def handful(rows: pd.DataFrame, against: str, starred: str | None) -> pd.DataFrame:
    """One series for each decoder and way to choose its masks, at most MOST_SERIES: `starred`'s, else the fastest.

    The series of AR is the run that the others are compared with. A series has the same look in every set.
    """
    parts: list[pd.DataFrame] = []
    for place, (fitted, name) in enumerate(product((False, True), decoders.TABLE)):
        found = rows[(rows["decoder"] == name) & ((rows["settings.window"] == "auto") == fitted)]
        if len(found) and len(parts) < MOST_SERIES:
            part = _first(found, against, starred)
            if name == decoders.BASELINE and len(own := references(rows, against)):
                part = own
            words = joined(drafts_words(part.iloc[0].to_dict()), "masks auto" if fitted else "")
            look = BASELINE_RANK if name == decoders.BASELINE else place
            parts.append(part.assign(series=joined(decoders.TABLE[name].title, words), rank=look))
    return pd.concat(parts).reset_index(drop=True) if parts else rows


def _first(rows: pd.DataFrame, against: str, starred: str | None) -> pd.DataFrame:
    usual = rows[(rows["settings.score"] == "probability") & (rows["settings.extra_proposal"] == False)]  # noqa: E712
    found = usual if len(usual) else rows
    model = found["model"].mode().iloc[0]
    best = found[found["model"] == model].sort_values([against, "id"], ascending=[False, True])
    chosen = rows[rows["id"] == starred]
    return rows[rows["series"] == (chosen if len(chosen) else best)["series"].iloc[0]]


def _rank(rows: pd.DataFrame) -> tuple[bool, float, float, int]:
    size = round(log2(rows["model.parameters"].max()))  # an adapter more or less is no other size
    return bool(rows["accuracy"].isna().all()), -size, -float(rows["n"].min()), -len(rows)


def _labels(sets: Sequence[pd.DataFrame]) -> list[str]:
    """A label for each set: its models, what they answered, where; batch sizes and longest answers if it takes them."""
    labels = []
    for rows in sets:
        first, models = rows.loc[rows["n"].idxmin()], list(dict.fromkeys(_models(rows)))
        more = f" and {len(models) - _MOST_NAMES} more" if len(models) > _MOST_NAMES else ""
        who = ", ".join(models[:_MOST_NAMES]) + more
        clock = f", {int(first['own_n']):,} on the clock" if first["own_n"] < first["n"] else ""
        labels.append(f"{who} · {problems_words(first.to_dict(), 'n')}{clock} · {first['hardware']}")
    for column, words in (("batch_size", "batch {}"), ("settings.max_new_tokens", "at most {} tokens")):
        alike = {label for label in labels if labels.count(label) > 1}
        labels = [
            f"{label} · {words.format(', '.join(str(int(each)) for each in sorted(rows[column].unique())))}"
            if label in alike
            else label
            for label, rows in zip(labels, sets, strict=True)
        ]
    return labels


def problems_words(row: Row, count: str = "own_n") -> str:
    """The problems of a run's tokens and speed, or those of its accuracy (`n`), in words: "48 problems of IFEval"."""
    tasks = [row["task"]] if row["task"] in row["tasks"] else row["tasks"]
    of = f"{len(tasks)} families" if len(tasks) > 1 else task_words(tasks[0])
    return f"{int(row[count]):,} problems of {of}"


def _models(rows: pd.DataFrame) -> Iterator[str]:
    """Models, those with most runs first; if most runs have a draft model, the models of these come first."""
    named = rows[_NAMES]
    words = pd.Series([model_words(row) for row in named.to_dict("records")], dtype=str)
    drafted = words[named["draft.name"].notna().to_numpy()]
    if 2 * len(drafted) > len(words):
        yield from drafted
    yield from words.value_counts().index

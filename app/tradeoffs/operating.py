"""The answer to an accuracy budget, in a sentence: the fastest setting whose loss is surely within it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log10

import pandas as pd

from analysis.figures.curves import Axes, drawable
from analysis.figures.frontiers import height
from analysis.figures.words import PUBLISHED, Row, missing
from analysis.stats.intervals import CONFIDENCE, Interval
from analysis.stats.operating_points import Candidate, OperatingPoint, chosen_among
from analysis.stats.pairs import PairedDifference
from app.tradeoffs.card import called, setting_words
from app.tradeoffs.together import PER_FORWARD, problems_words, references
from mars import decoders

_ALIKE = 0.05
"""Speeds that differ by less than this share are told as the same; so are accuracies that differ by so many points."""
_EXACT = [decoder.name for decoder in decoders.TABLE.values() if decoder.exact]
_UNCOUNTED = "Draft models are left out: tokens per forward do not count their passes."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer as a sentence, the method behind it, and the run that it names, if any."""

    sentence: str
    how: str = ""
    chosen: str | None = None


def finding(rows: pd.DataFrame, *, points: float, against: str) -> Finding:
    """The answer from `rows`, the runs of one set (`app.tradeoffs.together`); against time, of one batch size.

    Candidates are their marks in the frontier except AR, compared with their AR run on its problems. An exact decoder
    that wrote that run's text in every answer loses nothing; others are tested. In tokens per forward, runs with a
    draft model are no candidates, since the passes of the draft are not counted.
    """
    ours = rows[rows["source"] != PUBLISHED]
    ar = references(ours, against)
    drafted = ours["decoder"].isin([decoder.name for decoder in decoders.drafted()]) & (against == PER_FORWARD)
    tried = drawable(ours[(ours["decoder"] != decoders.BASELINE) & ~drafted], Axes(x=against, y=height(ours)))
    if tried.empty or ar.empty:
        return Finding(sentence="The selection has no run beside its AR run, so there is nothing to choose.")
    reference = ar.iloc[0].to_dict()
    if tried["loss"].notna().any():
        found = _judged(tried[tried["loss"].notna()], reference, points, against)
    else:
        found = _unjudged(tried, reference, against)
    return replace(found, how=f"{found.how} {_UNCOUNTED}") if drafted.any() else found


def _judged(tried: pd.DataFrame, ar: Row, points: float, against: str) -> Finding:
    sure = tried["decoder"].isin(_EXACT) & (tried["same_text"] == 1)
    point = _point(tried[~sure], points, against)
    within = f"Within {_points(points)} of AR's accuracy"
    where = _where(ar, against)
    how = [_who(ar, against), _tried(len(tried), int(ar["n"]))]
    able = tried[sure | tried["id"].isin([point.chosen.name] if point.chosen else [])]
    if able.empty:
        closest = min(candidate.loss_at_most for candidate in point.candidates)
        sentence = (
            f"{within}, no setting{where} is sure enough: the closest may lose {closest:.1f}, so stay with AR or raise "
            "the budget."
        )
        return Finding(sentence=sentence, how=" ".join(how))
    row = _best(able, against)
    if point.chosen is not None and row["id"] == point.chosen.name:
        loss = _loss(point.chosen)
    else:
        loss = f"AR's own text in all {int(row['n']):,} answers, so nothing is lost"
    said = " ".join([*how, f"{called(row)} ({setting_words(row)}): {loss}."])
    if against == PER_FORWARD:
        sentence = (
            f"{within}, {called(row)} writes the most tokens per forward: {row[against]:.1f}, where AR writes "
            f"{ar[against]:.1f}; a pass may take longer than one of AR."
        )
    elif row["speedup"] <= 1 + _ALIKE:
        ratio = _times(row["speedup"])
        sentence = f"{within}, AR itself is the fastest{where}: the next, {called(row)}, has {ratio} its speed."
        return Finding(sentence=sentence, how=said)
    else:
        sentence = f"{within}, the fastest{where} is {called(row)}: {_speed(row, ar)}."
    return Finding(sentence=sentence, how=said, chosen=str(row["id"]))


def _unjudged(tried: pd.DataFrame, ar: Row, against: str) -> Finding:
    """The answer if nobody judged the runs: only texts equal to AR's are known to be as accurate as AR."""
    same = tried[tried["same_text"] == 1]
    start = "These answers were not scored, so only AR's own text counts as no loss"
    how = f"{_who(ar, against)} {len(tried)} {_plural('setting', len(tried))} tried on {int(ar['n']):,} problems."
    if same.empty:
        return Finding(sentence=f"{start}; no setting here writes that text in every answer.", how=how)
    row, where = _best(same, against), _where(ar, against)
    if against == PER_FORWARD:
        sentence = f"{start}: {called(row)} writes it with the most tokens per forward, {row[against]:.1f}."
    elif row["speedup"] <= 1 + _ALIKE:
        return Finding(sentence=f"{start}: AR itself writes it fastest{where}.", how=how)
    else:
        sentence = f"{start}: {called(row)} writes it fastest{where}, {_speed(row, ar)}."
    return Finding(sentence=sentence, how=how, chosen=str(row["id"]))


def _best(rows: pd.DataFrame, against: str) -> Row:
    best: Row = rows.sort_values([against, "id"], ascending=[False, True]).iloc[0].to_dict()
    return best


def _point(tried: pd.DataFrame, points: float, against: str) -> OperatingPoint:
    """Choose the operating point from the measures in these rows."""
    rows = tried.to_dict("records")
    measured = {str(row["id"]): (Interval.of(row, against), PairedDifference.of(row)) for row in rows}
    return chosen_among(measured, points=points)


def _who(ar: Row, against: str) -> str:
    if against == PER_FORWARD:
        return f"AR is {ar['model']}, on {ar['hardware']}."
    speed = f"{ar['tokens_per_second']:,.0f} tokens a second"
    day = str(ar["date"])[:10]  # later versions have other speeds
    return f"AR is {ar['model']} at {speed}, measured on {day} in turn with the others, on {ar['hardware']}."


def _where(ar: Row, against: str) -> str:
    return "" if against == PER_FORWARD else f" at batch size {int(ar['batch_size'])}"


def _speed(row: Row, ar: Row) -> str:
    tokens = _rounded(row["tokens_per_second"])
    return f"about {tokens} tokens a second, {_times(row['speedup'])} AR, on {problems_words(ar)}"


def _tried(count: int, problems: int) -> str:
    return f"{count} {_plural('setting', count)} tried on {problems:,} problems, {CONFIDENCE:.0%} confidence."


def _loss(chosen: Candidate) -> str:
    loss, at_most = -chosen.difference.score_interval().value, chosen.loss_at_most
    if abs(loss) < _ALIKE:
        measured = "as accurate as AR in this measurement"
    else:
        measured = f"{abs(loss):.1f} points {'less' if loss > 0 else 'more'} accurate than AR in this measurement"
    limit = "no less accurate" if at_most < _ALIKE else f"at most {at_most:.1f} points less"
    return f"{measured}, and {limit} with {CONFIDENCE:.0%} confidence"


def _points(points: float) -> str:
    return f"{points:g} {_plural('point', points)}"


def _plural(word: str, count: float) -> str:
    return word if count == 1 else f"{word}s"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio >= 1 + _ALIKE else f"{ratio:.2f}×"


def _rounded(value: float) -> str:
    """Two significant digits: 1,638 is about 1,600."""
    if missing(value) or value <= 0:
        return "0"
    digits = 1 - floor(log10(value))
    return f"{round(value, digits):,.{max(0, digits)}f}"

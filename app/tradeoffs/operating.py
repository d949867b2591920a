"""The answer to an accuracy budget, in a sentence: the fastest setting that is surely within it and faster than AR."""

from dataclasses import dataclass

import pandas as pd

from analysis.figures.operating_points import judged
from analysis.figures.points import PER_FORWARD
from analysis.figures.words import Row, measure_words
from analysis.stats.intervals import CONFIDENCE
from analysis.stats.pairs import PairedDifference
from app.tradeoffs.card import called, setting_words
from app.tradeoffs.together import problems_words, references
from mars import decoders

_ALIKE = 0.05
"""Speeds that differ by less than this share are told as the same; so are accuracies that differ by so many points."""
FEWEST = 100  # problems that a recommendation takes: of fewer, chance moves an accuracy by some ten points either way
_UNSCORED = "These answers were not scored, so only AR's own text is surely as accurate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer as a sentence, the method behind it, and the run within the budget, if there is one."""

    sentence: str
    how: str = ""
    chosen: str | None = None


def finding(rows: pd.DataFrame, *, points: float, against: str) -> Finding:
    """The answer from `rows`, the runs of one set (`app.tradeoffs.together`); against time, of one batch size.

    It chooses among the settings that the figure of bars draws (`analysis.figures.operating_points.judged`), AR aside.
    """
    ar, tried = references(rows, against), judged(rows, points=points, against=against)
    tried = tried[tried["decoder"] != decoders.BASELINE]
    others = rows.loc[rows["decoder"] != decoders.BASELINE, ["agreement", "same_text"]]
    own_texts = others["agreement"].notna().any() and others["same_text"].isna().all()
    if ar.empty or (tried.empty and not own_texts):
        return Finding(sentence="The selection has no run beside its AR run, so there is nothing to choose.")
    reference, scored = ar.iloc[0].to_dict(), bool(tried["loss"].notna().any())
    where = "" if against == PER_FORWARD else f" at batch size {int(reference['batch_size'])}"
    how = _how(rows, tried, reference, against)
    if tried.empty:
        return Finding(sentence=f"{_UNSCORED}. These settings have other weights, hence other texts.", how=how)
    right = 100 * reference["accuracy"] if scored else float("nan")
    asked = f"{f'AR has {right:.1f} % of ' if scored else ''}{problems_words(reference, 'n')}{' right' * scored}"
    if reference["n"] < FEWEST:
        return Finding(sentence=f"{asked}: fewer than {FEWEST} are no ground to recommend a setting.", how=how)
    if points >= right:
        return Finding(sentence=f"{asked}: it could lose them all within this budget. Set a smaller one.", how=how)
    budget = f"{_points(points)} of AR's accuracy ({right:.1f} %, n = {int(reference['n']):,})"
    start = f"Within {budget}" if scored else "Not scored. Of the settings with AR's text"
    able = tried[tried["qualifies"]]
    if able.empty and not scored:
        return Finding(sentence=f"{_UNSCORED}. No setting here writes it in every answer.", how=how)
    if able.empty:
        least = tried["loss_at_most"].min()
        row = _best(tried[tried["loss_at_most"] == least], against)
        closest = f"{called(row)}: {_gain(row, against)}; it may lose {_points(round(least + 0.05, 1))}"
        none = f"No setting{where} is surely within {budget}. The closest is {closest}."
        return Finding(sentence=f"{none} Raise the budget, or stay with AR.", how=how)
    faster = _ahead(able, reference, against)
    row = _best(able if faster.empty else faster, against)
    how = f"{how} {called(row)} ({setting_words(row)}): {_loss(row, points)}."
    if faster.empty:
        none = f"is clearly faster than AR: the fastest, {called(row)}, is {_faster(row)}"
        none = "writes clearly more tokens per forward than AR" if against == PER_FORWARD else none
        return Finding(sentence=f"{start}, no setting{where} {none}.", how=how)
    if against == PER_FORWARD:
        sentence = (
            f"{start}, {called(row)} writes the most tokens per forward: {row[against]:.1f}, where AR writes "
            f"{reference[against]:.1f}; a pass may take longer than one of AR."
        )
    else:
        speed = f"about {_rounded(row['tokens_per_second'])} tokens a second, {_faster(row)}"
        sentence = f"{start}, the fastest{where} is {called(row)}: {speed}, on {problems_words(reference)}."
    if row["sure"] and scored and not tried["sure"].all():
        sentence = f"{sentence} {_lossy(faster[~faster['sure']], against)}"
    return Finding(sentence=sentence, how=how, chosen=str(row["id"]))


def _ahead(able: pd.DataFrame, ar: Row, against: str) -> pd.DataFrame:
    if against == PER_FORWARD:
        return able[able[against] > (1 + _ALIKE) * ar[against]]
    return able[(able["speedup"] > 1 + _ALIKE) & ~(able["speedup_low"] <= 1)]


def _lossy(able: pd.DataFrame, against: str) -> str:
    """What the budget buys: the best of the settings that may change the text."""
    start = "Of the settings that may change the text"
    if able.empty:
        return f"{start}, none is surely within the budget{'' if against == PER_FORWARD else ' and faster'}."
    row = _best(able, against)
    return f"{start}, the best within it is {called(row)}: {_gain(row, against)}."


def _gain(row: Row, against: str) -> str:
    return f"{row[against]:.1f} tokens per forward" if against == PER_FORWARD else _faster(row)


def _best(rows: pd.DataFrame, against: str) -> Row:
    best: Row = rows.sort_values([against, "id"], ascending=[False, True]).iloc[0].to_dict()
    return best


def _how(rows: pd.DataFrame, tried: pd.DataFrame, ar: Row, against: str) -> str:
    speed = "" if against == PER_FORWARD else f" at {ar['tokens_per_second']:,.0f} tokens a second"
    # The day, for later versions have other speeds.
    turns = "" if against == PER_FORWARD else f"measured on {str(ar['date'])[:10]} in turn with the others, "
    said = [f"AR is {ar['model']}{speed} on {problems_words(ar)}, {turns}on {ar['hardware']}."]
    if tried.empty:
        return said[0]
    problems, count = int(tried["n"].min()), int(tried["tried"].max()) or len(tried)
    sure = f"{CONFIDENCE:.0%} confidence" + " in all of them together, so the limits are wider than drawn" * (count > 1)
    said.append(f"{count} setting{'s' * (count > 1)} tried on {problems:,} problems; {sure}.")
    if against == PER_FORWARD and rows["decoder"].isin([decoder.name for decoder in decoders.drafted()]).any():
        said.append("Draft models are left out: tokens per forward do not count their passes.")
    if (rows["decoder"] == decoders.EXACT).any() and not (rows["decoder"] == "prompt_lookup").any():
        said.append("Copies alone (prompt lookup) were not measured with these runs.")
    return " ".join(said)


def _faster(row: Row) -> str:
    value, _, interval = measure_words(row, "speedup", ".2f").partition(" ")
    return f"{value}× as fast as AR {interval}".rstrip()


def _loss(row: Row, points: float) -> str:
    if row["sure"]:
        return f"AR's own text in all {int(row['own_n']):,} answers, so nothing is lost"
    loss = -PairedDifference.of(row).score_interval().value
    if abs(loss) < _ALIKE:
        measured = "as accurate as AR in this measurement"
    else:
        measured = f"{abs(loss):.1f} points {'less' if loss > 0 else 'more'} accurate than AR in this measurement"
    return f"{measured}; with {CONFIDENCE:.0%} confidence it loses less than {_points(points)}"


def _points(points: float) -> str:
    return f"{points:g} point{'' if points == 1 else 's'}"


def _rounded(value: float) -> str:
    """Two significant digits: 1,638 is about 1,600."""
    return f"{float(f'{value:.2g}'):,g}"

"""The measured part of a checkpoint's card, from its record and the run store: training, families, benchmarks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from operator import mul
from typing import Any, NamedTuple

import pandas as pd

from analysis.benchmarks.accuracy import figures
from analysis.benchmarks.ifeval import TASK as IFEVAL
from analysis.benchmarks.ifeval import Check, Prompt, instructions
from analysis.benchmarks.spec_bench import CATEGORIES, OVERALL, Question
from analysis.benchmarks.spec_bench import TASK as SPEC_BENCH
from analysis.claims.judging import number, percent, points
from analysis.runs import RunStore
from analysis.runs.schema import short_commit
from analysis.stats.intervals import Interval
from analysis.stats.pairs import paired_difference, speed_up_of_means
from analysis.stats.resampling import ratio_of_sums, tokens_per_forward
from analysis.stats.strata import grouped
from analysis.stats.turns import time_gain
from analysis.text_table import markdown
from mars.decoders import BASELINE, EXACT, RELAXED, USUAL
from mars_tasks import TASKS

BEGIN, END = "<!-- measured: written by `python -m analysis card --checkpoint DIR` -->", "<!-- end of measured -->"
CURVE_ROWS = 10
LEAST_PROBLEMS = 200
FEWEST_QUESTIONS = 10
"""That an interval of a category needs: resamples of fewer are far too much alike."""
MOST_LOST = 1.0
"""What the threshold to begin with may lose, by value: points of problems, and tokens of 100 on ordinary questions."""
Entry = Mapping[str, Any]


def measured_part(
    record: Mapping[str, Any],
    store: RunStore,
    fingerprint: str,
    baseline: str | None,
    questions: Sequence[Question],
    prompts: Sequence[Prompt],
    check: Callable[[], Check],
) -> str:
    """Markdown: a section for each thing that was measured of the checkpoint with this fingerprint.

    `baseline` is the fingerprint of the model whose AR its accuracy is compared with; `check` loads the checkers of
    IFEval, if there are texts to check.
    """
    own = [entry for entry in store.entries if entry["model"]["fingerprint"] == fingerprint]
    families, ifeval = _together(own, store, list(TASKS), baseline), _together(own, store, [IFEVAL], baseline)
    parts = [
        _training(record),
        _calibration(record),
        _default(record),
        _families(families, store),
        _clock(_in_turns(own, store, baseline), store),
        _spec_bench(own, store, questions),
    ]
    if ifeval:
        parts.append(_ifeval(ifeval, store, prompts, check()))
    return "\n\n".join(part for part in parts if part)


def with_measured(card: str, part: str) -> str:
    """The card with this measured part: in the place of the one it has, else at its end."""
    whole = f"{BEGIN}\n\n{part}\n\n{END}"
    if BEGIN not in card:
        return f"{card.rstrip()}\n\n{whole}\n"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: whole, card, flags=re.DOTALL)


def training_curve(record: Mapping[str, Any]) -> pd.DataFrame:
    """How well an adapter fills masks, in means over tenths of the log in its record; no rows without a log.

    The columns are `steps`, `hours`, `loss`, `mask_1` … and `tokens`. `mask_k` is how often mask k's most probable
    token is the one written; masks past the adapter's own block are left out. `tokens` are those of a pass if masks
    were right independently of each other. Hours are the recorded seconds in proportion to the steps.
    """
    measured = record.get("measured", {})
    log = [line for line in measured.get("log", ()) if "loss" in line]
    masks = range(1, min(record["masks"], record["block_size"] - 1) + 1) if log and record.get("masks") else ()
    if not masks:
        return pd.DataFrame()
    size = -(-len(log) // CURVE_ROWS)
    rows = []
    for first in range(0, len(log), size):
        part = pd.DataFrame(log[first : first + size])
        done = (first + len(part)) / len(log)
        shares = [float(part[f"alone_{mask}"].mean()) for mask in masks]
        rows.append(
            {
                "steps": done * measured["steps"],
                "hours": done * measured["seconds"] / 3600,
                "loss": float(part["loss"].mean()),
                **{f"mask_{mask}": share for mask, share in zip(masks, shares, strict=True)},
                "tokens": 1 + sum(accumulate(shares, mul)),
            }
        )
    return pd.DataFrame(rows)


def _training(record: Mapping[str, Any]) -> str:
    """The mean loss, and how often masks are right, by steps."""
    curve = training_curve(record)
    if curve.empty:
        return ""
    masks = [name for name in curve if name.startswith("mask_")]
    lines = [["steps", "hours", "loss", *(name.replace("_", " ") for name in masks), "tokens a pass, estimated"]]
    for row in curve.to_dict("records"):
        shares = [f"{row[name]:.0%}" for name in masks]
        lines.append(
            [f"{row['steps']:,.0f}", f"{row['hours']:.1f}", f"{row['loss']:.2f}", *shares, f"{row['tokens']:.2f}"]
        )
    words = (
        "From the log in `mars.json`, each line the mean since the line before: the loss, how often a mask's most "
        "probable token is the one written, and the tokens of a pass if masks were right independently of each other. "
        "Hours are the recorded seconds in proportion to the steps."
    )
    return f"## By training steps\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _calibration(record: Mapping[str, Any]) -> str:
    """How probabilities and calibrated scores of masks compare with the share that is right, bin by bin."""
    found = record.get("calibration")
    if not found:
        return ""
    lines = [["score", *(f"{what}, {name}" for name in found["bins"] for what in ("n", "mean", "right"))]]
    edges = sorted({(each["low"], each["high"]) for bins in found["bins"].values() for each in bins})
    for low, high in edges:
        line = [f"{low:g} to {high:g}"]
        for bins in found["bins"].values():
            each = next((each for each in bins if each["low"] == low), None)
            line += (
                [f"{each['n']:,}", f"{each['mean_score']:.3f}", f"{each['agreement']:.3f}"] if each else ["0", "", ""]
            )
        lines.append(line)
    error, pairs = found["error"], "; ".join(f"{slope:.3f}, {offset:+.3f}" for slope, offset in found["masks"])
    words = (
        "The score `calibrated` of a mask's proposal of probability p is σ(slope · logit p + offset), the chance that "
        f"one-token mode writes it. Slope and offset of {'each mask' if len(found['masks']) > 1 else 'all masks'}: "
        f"{pairs}. Expected calibration error: {error['probability']:.4f} of probabilities, {error['calibrated']:.4f} "
        f"calibrated, on prompts left out of the fit; {found['proposals']:,} proposals, {found['prompts']} held-out "
        f"prompts, {found['dtype']}, {found['date'][:10]}, `{found['command']}`. Right: the token is that of one-token "
        "mode."
    )
    return f"## Calibration\n\n{words}\n\n{markdown(lines, numbers=True)}"


class _Setting(NamedTuple):
    """What runs share among which a threshold is chosen."""

    timed: bool
    group: str | None
    problems: int
    seed: int
    hardware: str
    dtype: str
    batch_size: int
    max_new_tokens: int

    @classmethod
    def of(cls, entry: Entry) -> _Setting:
        known = {**entry["settings"], **entry}
        return cls(**{name: known[name] for name in cls._fields})


def default_of(store: RunStore, fingerprint: str, baseline: str | None) -> dict[str, Any] | None:
    """The threshold to begin with and its `stops`, as a record has them (mars/checkpoint/calibration.py).

    None if there are no such runs (`_swept`). Speeds of runs that were not timed are those of `_in_turns`.
    """
    if (swept := _swept(store, fingerprint, baseline)) is None:
        return None
    ar, runs = swept
    base = store.rows(ar["id"])
    own = [entry for entry in store.entries if entry["model"]["fingerprint"] == fingerprint]
    in_turns = [(run, speed) for run, speed in _in_turns(own, store, baseline) if _is_usual(run)]
    speeds = {run["settings"]["threshold"]: speed for run, speed in in_turns}
    stops: list[dict[str, Any]] = []
    for run in sorted(runs, key=_order):
        rows, threshold = store.rows(run["id"]), run["settings"]["threshold"]
        speed = time_gain(rows, base) if run["timed"] else speeds.get(threshold)
        stops.append(
            {
                "threshold": threshold,
                "points": _rounded(paired_difference(rows, base).score_interval()),
                "tokens_per_forward": round(tokens_per_forward(rows).value, 4),
                "speed": speed and _rounded(speed),
                "n": len(rows),
            }
        )
    thresholds = [stop for stop in stops if stop["threshold"] is not None]
    chats = [run for run in own if list(run["tasks"]) == ["chat"] and _is_usual(run)]
    agreed = {run["id"]: ratio_of_sums(store.rows(run["id"]), "agreeing", "tokens").value for run in chats}
    # Of 100 tokens, those that one-token mode would not write.
    differing = {run["settings"]["threshold"]: round(100 * (1 - agreed[run["id"]]), 4) for run in chats}

    def loses_little(stop: Mapping[str, Any]) -> bool:
        return max(-stop["points"][0], differing.get(stop["threshold"], 0.0)) <= MOST_LOST

    within = list(takewhile(loses_little, thresholds))
    origin = {name: ar[name] for name in ("hardware", "dtype", "batch_size", "date", "seed")}
    origin["commit"] = ", ".join(dict.fromkeys(str(entry["commit"]) for entry in (ar, *runs)))
    start = within[-1] if within else thresholds[0]
    told = {"threshold": start["threshold"], "score": "probability", "most_lost": MOST_LOST, "within": bool(within)}
    return {
        **told,
        "differing": differing.get(start["threshold"]),
        "stops": stops,
        "baseline": ar["model"]["name"],
        **origin,
    }


def _swept(store: RunStore, fingerprint: str, baseline: str | None) -> tuple[Entry, list[Entry]] | None:
    """AR's run on all families and those of the model with the same setting, None if none has a threshold.

    Those in turns at batch size 1 come before others, those on most problems before others, the most before fewer.
    """
    able = [
        entry
        for entry in store.entries
        if list(entry["tasks"]) == list(TASKS)
        and (entry["batch_size"] == 1 or not entry["timed"])
        and entry["problems"] * len(TASKS) >= LEAST_PROBLEMS
    ]
    of_ar = [entry for entry in able if entry["decoder"] == BASELINE and entry["model"]["fingerprint"] == baseline]
    plain = {_Setting.of(entry): entry for entry in of_ar}
    found: dict[_Setting, list[Entry]] = {}
    for entry in able:
        if entry["model"]["fingerprint"] == fingerprint and _is_usual(entry) and (own := _Setting.of(entry)) in plain:
            found.setdefault(own, []).append(entry)
    found = {own: runs for own, runs in found.items() if any(run["settings"]["threshold"] is not None for run in runs)}
    if not found:
        return None
    best = max(found, key=lambda setting: (setting.timed, setting.problems, len(found[setting])))
    return plain[best], found[best]


def _is_usual(entry: Entry) -> bool:
    """Whether the slider alone tells the run from the page's: the block size of the training, all masks."""
    usual = {"score": "probability", "extra_proposal": False, "window": "fixed"}
    wanted = usual | {"block_size": entry["model"]["block_size"]}
    same = all(entry["settings"].get(name, value) == value for name, value in wanted.items())
    return same and entry["decoder"] == USUAL


def _in_turns(own: Sequence[Entry], store: RunStore, baseline: str | None) -> list[tuple[Entry, Interval]]:
    """The runs in turns with AR of the baseline at batch size 1, those on most problems, and their speeds over it."""

    def on_the_clock(entry: Entry) -> bool:
        return bool(entry["timed"]) and entry["batch_size"] == 1 and list(entry["tasks"]) == list(TASKS)

    def turns(entry: Entry) -> tuple[Any, ...]:
        return entry["problems"], entry["group"]

    able = [entry for entry in store.entries if on_the_clock(entry) and entry["model"]["fingerprint"] == baseline]
    plain = {turns(entry): entry for entry in able if entry["decoder"] == BASELINE}
    runs = [entry for entry in own if on_the_clock(entry) and turns(entry) in plain]
    if not runs:
        return []
    most = max(map(turns, runs))
    base = store.rows(plain[most]["id"])
    chosen = sorted((entry for entry in runs if turns(entry) == most), key=_order)
    return [(entry, time_gain(store.rows(entry["id"]), base)) for entry in chosen]


def _clock(runs: Sequence[tuple[Entry, Interval]], store: RunStore) -> str:
    """Tokens per forward and the speed over AR of runs in turns."""
    if not runs:
        return ""
    first, own = runs[0][0], runs[0][0]["model"]["fingerprint"]
    lines = [["decoder", "tokens per forward", "speed over AR"]]
    for entry, speed in runs:
        gain = tokens_per_forward(store.rows(entry["id"]))
        lines.append([_label(entry, own), number(gain), f"{number(speed)} ×"])
    words = (
        f"{first['problems'] * len(first['tasks'])} held-out problems, {_where(first)}, in turns with AR; "
        f"{_origin(first)}. 95 % intervals: over problems, of speeds over turns where there are enough."
    )
    return f"## On the clock\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _rounded(found: Interval) -> list[float]:
    return [round(value, 4) for value in (found.value, found.low, found.high)]


def _default(record: Mapping[str, Any]) -> str:
    """The threshold to begin with, how it was found, and what was measured at each."""
    found = record.get("default")
    if not found or not found.get("stops"):
        return ""
    lines = [["τ", "points to AR", "tokens per forward", "speed over AR"]]
    for stop in found["stops"]:
        speed = "" if stop["speed"] is None else f"{number(Interval(*stop['speed']))} ×"
        shown = f"{stop['tokens_per_forward']:.2f}"
        name = "one token" if stop["threshold"] is None else f"{stop['threshold']:g}"
        lines.append([name, points(Interval(*stop["points"])), shown, speed])
    differing = found.get("differing")
    same = (
        f", and on ordinary questions writes at most {found['most_lost']:g} token in 100 that one-token mode would not"
    )
    text = "" if differing is None else f"{same} ({differing:.1f})"
    chosen = (
        f"It is the lowest that loses at most {found['most_lost']:g} point by value{text}, as all above it do"
        if found["within"]
        else f"None loses at most {found['most_lost']:g} point by value, so it is the highest"
    )
    words = (
        f"The page begins at τ = {found['threshold']:g}. {chosen}: paired differences to AR of {found['baseline']} on "
        f"the same n = {found['stops'][0]['n']:,} held-out problems of all families, seed {found['seed']} (95 %). "
        f"{found['dtype']}, batch {found['batch_size']}; {_origin(found)}. Speeds are at batch size 1 in turns."
    )
    return f"## Threshold to begin with\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _together(own: Sequence[Entry], store: RunStore, tasks: list[str], baseline: str | None) -> list[Entry]:
    """The untimed runs on most of these questions of one machine, behind AR of the baseline on the same ones."""

    def asked(entry: Entry) -> tuple[Any, ...]:
        names = ("problems", "seed", "hardware", "dtype")
        return (*(entry[name] for name in names), entry["settings"]["max_new_tokens"])

    runs = [entry for entry in own if list(entry["tasks"]) == tasks and not entry["timed"]]
    runs = [entry for entry in runs if entry["settings"]["score"] == "probability"]
    found: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in runs:
        found.setdefault(asked(entry), []).append(entry)
    if not found:
        return []

    def plain(runs: Sequence[Entry]) -> Sequence[Entry]:
        return [
            entry
            for entry in store.entries
            if entry["decoder"] == BASELINE
            and entry["model"]["fingerprint"] == baseline
            and list(entry["tasks"]) == tasks
            and asked(entry) == asked(runs[0])
            and not entry["timed"]
        ][:1]

    most = max(found.values(), key=lambda runs: (len(plain(runs)), runs[0]["problems"], len(runs)))
    return [*plain(most), *sorted((entry for entry in most if entry not in plain(most)), key=_order)]


def _families(runs: Sequence[Entry], store: RunStore) -> str:
    """Accuracy on the families of problems, and the points to AR."""
    if not runs:
        return ""
    first, own = runs[0], runs[-1]["model"]["fingerprint"]
    rows = [store.rows(entry["id"]) for entry in runs]
    base = rows[0] if first["decoder"] == BASELINE else None
    told = [figures(_label(entry, own), each, base) for entry, each in zip(runs, rows, strict=True)]
    lines = [["decoder", "right", "points to AR", "tokens per forward", *told[0].by_task]]
    for each in told:
        shares = [f"{share.value:.0%}" for share in each.by_task.values()]
        lines.append(
            [
                each.label,
                f"{each.right}: {percent(each.accuracy)}",
                "" if each.points is None else points(each.points),
                f"{each.tokens_per_forward.value:.2f}",
                *shares,
            ]
        )
    words = (
        f"{first['problems']} held-out problems of each of {len(first['tasks'])} families (n = {told[0].n}), seed "
        f"{first['seed']}, greedy, {_where(first)}; {_origin(*runs)}. Intervals are 95 %: Wilson's for accuracy, score "
        "intervals of the same problems for points."
    )
    return f"## Families of problems\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _spec_bench(own: Sequence[Entry], store: RunStore, questions: Sequence[Question]) -> str:
    """The exact run on most questions and the copies of its turns by category, over AR."""
    runs = [entry for entry in own if list(entry["tasks"]) == [SPEC_BENCH] and entry["group"]]
    exact = [entry for entry in runs if entry["decoder"] == EXACT]
    if not exact:
        return ""
    best = max(exact, key=lambda entry: (entry["problems"], entry["date"]))
    turns = [entry for entry in store.entries if entry["group"] == best["group"]]
    plain = next(entry for entry in turns if entry["decoder"] == BASELINE)
    shown = [best, *(entry for entry in turns if entry["decoder"] == "prompt_lookup")]
    lines = [["category", "n"]]
    for entry in shown:
        name = f"exact, {entry['settings']['layout']}" if entry["decoder"] == EXACT else "copies alone"
        lines[0] += [f"{name}: tokens per forward", "speed-up over AR"]
    groups = {question.number: question.group for question in questions}
    rows = {entry["id"]: grouped(store.rows(entry["id"]), groups) for entry in (plain, *shown)}
    asked = set(rows[plain["id"]]["number"])
    for category in (*CATEGORIES, OVERALL):
        numbers = {each.number for each in questions if category in (each.category, OVERALL)} & asked
        if not numbers:
            continue
        parts = {name: run[run["number"].isin(numbers)].reset_index(drop=True) for name, run in rows.items()}
        line = [category, str(len(numbers))]
        for entry in shown:
            part = parts[entry["id"]]
            told = ratio_of_sums(part, "tokens", "passes"), speed_up_of_means(part, parts[plain["id"]])
            line += [number(each) if len(numbers) >= FEWEST_QUESTIONS else f"{each.value:.2f}" for each in told]
        lines.append(line)
    where = f"{_where(best)}, in turns; {_origin(*shown)}"
    words = (
        f"{where}. As that benchmark defines them; 95 % intervals over questions, within its groups; fewer than "
        f"{FEWEST_QUESTIONS} say too little for one."
    )
    return f"## Spec-Bench by category\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _ifeval(runs: Sequence[Entry], store: RunStore, prompts: Sequence[Prompt], check: Check) -> str:
    """The shares of prompts and of instructions that were followed, and the points to AR."""
    first, own = runs[0], runs[-1]["model"]["fingerprint"]
    rows = [store.rows(entry["id"]) for entry in runs]
    asked = set(rows[0]["number"])
    some = [prompt for prompt in prompts if prompt.key in asked]
    base = rows[0] if first["decoder"] == BASELINE else None
    lines = [["decoder", "prompts followed", "instructions followed", "points to AR, prompts", "tokens per forward"]]
    for entry, each in zip(runs, rows, strict=True):
        told = figures(_label(entry, own), each, base, instructions(each, some, check))
        lines.append(
            [
                told.label,
                f"{told.right}: {percent(told.accuracy)}",
                percent(told.instructions) if told.instructions else "",
                "" if told.points is None else points(told.points),
                f"{told.tokens_per_forward.value:.2f}",
            ]
        )
    given = sum(len(prompt.instructions) for prompt in some)
    words = (
        f"{len(some)} prompts with {given} instructions, strict, {_where(first)}; {_origin(*runs)}. Intervals (95 %): "
        "Wilson's for prompts, the bootstrap over prompts for instructions, score intervals for points."
    )
    return f"## IFEval, {len(some)} prompts\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _order(entry: Entry) -> tuple[bool, float]:
    threshold = entry["settings"]["threshold"]
    return entry["decoder"] != "sliding_window", -2.0 if threshold is None else -float(threshold)


def _label(entry: Entry, own: str) -> str:
    settings = entry["settings"]
    if entry["decoder"] == BASELINE and entry["model"]["fingerprint"] != own:
        return f"AR, {entry['model']['name']}"
    if entry["decoder"] == EXACT:
        return f"exact, {settings['layout']}"
    if entry["decoder"] not in ("sliding_window", RELAXED):
        return str(entry["decoder"])
    threshold = "one token" if settings["threshold"] is None else f"τ = {settings['threshold']:g}"
    if entry["decoder"] == RELAXED:
        return f"relaxed, {threshold}"
    return threshold + (", extra proposal" if settings["extra_proposal"] else "")


def _where(entry: Entry) -> str:
    return f"{entry['dtype']}, batch {entry['batch_size']}, at most {entry['settings']['max_new_tokens']} new tokens"


def _origin(*entries: Entry) -> str:
    """The machine and day of the first of them, and the commits of all."""
    named = dict.fromkeys(commit for entry in entries for commit in str(entry["commit"]).split(", "))
    commits = ", ".join(map(short_commit, named))
    return f"{entries[0]['hardware']}, {entries[0]['date'][:10]}, commit{'s' * (',' in commits)} {commits}"

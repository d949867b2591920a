"""The measured part of an adapter's card, from its record and the run store: training, Spec-Bench, IFEval."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import pandas as pd

from analysis.benchmarks.ifeval import TASK as IFEVAL
from analysis.benchmarks.ifeval import Check, Prompt, figures
from analysis.benchmarks.questions import CATEGORIES, OVERALL, Question
from analysis.benchmarks.spec_bench import TASK as SPEC_BENCH
from analysis.claims.judging import number, percent, points
from analysis.runs import RunStore
from analysis.stats.pairs import speed_up_of_means
from analysis.stats.resampling import ratio_of_sums
from analysis.text_table import markdown
from mars.decoders import BASELINE, EXACT

BEGIN, END = "<!-- measured: written by `python -m analysis card --checkpoint DIR` -->", "<!-- end of measured -->"
CURVE_ROWS = 10
Entry = Mapping[str, Any]


def measured_part(
    record: Mapping[str, Any],
    store: RunStore,
    fingerprint: str,
    questions: Sequence[Question],
    prompts: Sequence[Prompt],
    check: Callable[[], Check],
) -> str:
    """Markdown: a section for each thing that was measured of the adapter with this fingerprint.

    `check` loads the checkers of IFEval, if there are texts to check.
    """
    own = [entry for entry in store.entries if entry["model"]["fingerprint"] == fingerprint]
    parts = [
        _training(record),
        _spec_bench(own, store, questions),
        *_ifeval(own, store, prompts, check),
    ]
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
    token is the one written, given the token before it where the adapter has a head; masks past the adapter's own block
    are left out. `tokens` are those of a pass if masks were right independently of each other. Hours are the recorded
    seconds in proportion to the steps.
    """
    measured = record.get("measured", {})
    log = [line for line in measured.get("log", ()) if "loss" in line]
    kind = "given" if record.get("head") else "alone"
    masks = range(1, min(record["masks"], record["block_size"] - 1) + 1) if log and record.get("masks") else ()
    if not masks:
        return pd.DataFrame()
    size = -(-len(log) // CURVE_ROWS)
    rows = []
    for first in range(0, len(log), size):
        part = pd.DataFrame(log[first : first + size])
        done = (first + len(part)) / len(log)
        shares = [float(part[f"{kind}_{mask}"].mean()) for mask in masks]
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
        f"probable token is the one written{', given the token before it' if record['head'] else ''}, and the tokens "
        "of a pass if masks were right independently of each other. Hours are the recorded seconds in proportion to "
        "the steps."
    )
    return f"## By training steps\n\n{words}\n\n{markdown(lines, numbers=True)}"


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
    rows = {entry["id"]: _grouped(store.rows(entry["id"]), groups) for entry in (plain, *shown)}
    asked = set(rows[plain["id"]]["number"])
    for category in (*CATEGORIES, OVERALL):
        numbers = {each.number for each in questions if category in (each.category, OVERALL)} & asked
        if not numbers:
            continue
        parts = {name: run[run["number"].isin(numbers)].reset_index(drop=True) for name, run in rows.items()}
        line = [category, str(len(numbers))]
        for entry in shown:
            part = parts[entry["id"]]
            line.append(number(ratio_of_sums(part, "tokens", "passes")))
            line.append(number(speed_up_of_means(part, parts[plain["id"]])))
        lines.append(line)
    where = f"{best['dtype']}, batch {best['batch_size']}, at most {best['settings']['max_new_tokens']} new tokens"
    words = f"{where}, in turns; {_origin(best)}. As that benchmark defines them, with 95 % intervals over questions."
    return f"## Spec-Bench by category\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _grouped(rows: pd.DataFrame, groups: Mapping[int, str]) -> pd.DataFrame:
    """The rows with the benchmark's groups as strata."""
    return rows.assign(task=rows["number"].map(groups)).sort_values(["task", "number"], ignore_index=True)


def _ifeval(own: Sequence[Entry], store: RunStore, prompts: Sequence[Prompt], check: Callable[[], Check]) -> list[str]:
    """A table for the runs on most prompts, and one for those of most settings where these are others."""
    runs = [entry for entry in own if list(entry["tasks"]) == [IFEVAL] and not entry["timed"]]
    runs = [entry for entry in runs if entry["settings"]["score"] == "probability"]
    found: dict[tuple[int, str, int], list[Entry]] = {}
    for entry in runs:
        found.setdefault((entry["problems"], entry["hardware"], entry["batch_size"]), []).append(entry)
    together = sorted(found.values(), key=lambda each: (-each[0]["problems"], -len(each)))
    shown = together[:1]
    shown += [
        each for each in together[1:] if len(each) > len(shown[0]) and each[0]["problems"] < shown[0][0]["problems"]
    ][:1]
    followed = check() if shown else None
    return [_followed(each, store, prompts, followed) for each in shown if followed is not None]


def _followed(runs: Sequence[Entry], store: RunStore, prompts: Sequence[Prompt], check: Check) -> str:
    """The shares of prompts and of instructions that were followed, and the points to the base's AR."""
    first = runs[0]
    base = [
        entry
        for entry in store.entries
        if list(entry["tasks"]) == [IFEVAL]
        and entry["decoder"] == BASELINE
        and entry["model"]["fingerprint"] == first["model"].get("base")
        and entry["hardware"] == first["hardware"]
        and entry["settings"]["max_new_tokens"] == first["settings"]["max_new_tokens"]
        and entry["problems"] >= first["problems"]
    ]
    asked = set(store.rows(first["id"])["number"])
    of_base = None
    if base:
        rows = store.rows(max(base, key=lambda entry: (entry["problems"], entry["batch_size"]))["id"])
        of_base = rows[rows["number"].isin(asked)].reset_index(drop=True)
    some = [prompt for prompt in prompts if prompt.key in asked]
    lanes = [] if of_base is None else [("the base, AR", of_base)]
    lanes += [(_label(entry), store.rows(entry["id"])) for entry in sorted(runs, key=_order)]
    lines = [["decoder", "prompts followed", "instructions followed", "points to AR, prompts", "tokens per forward"]]
    for place, (label, rows) in enumerate(lanes):
        told = figures(label, some, rows, check, of_base if place else None)
        lines.append(
            [
                label,
                f"{told.followed}: {percent(told.prompts)}",
                f"{told.instructions_followed}: {percent(told.instructions)}",
                "" if told.difference is None else points(told.difference.score_interval()),
                f"{told.tokens_per_forward.value:.2f}",
            ]
        )
    given = sum(len(prompt.instructions) for prompt in some)
    words = (
        f"{len(some)} prompts with {given} instructions, strict, {first['dtype']}, {first['batch_size']} rows, at most "
        f"{first['settings']['max_new_tokens']} new tokens; {_origin(first)}. Intervals are 95 %: Wilson's for "
        "prompts, the bootstrap over prompts for instructions, score intervals for points."
    )
    return f"## IFEval, {len(some)} prompts\n\n{words}\n\n{markdown(lines, numbers=True)}"


def _order(entry: Entry) -> tuple[bool, float]:
    threshold = entry["settings"]["threshold"]
    return entry["decoder"] != "sliding_window", -2.0 if threshold is None else -float(threshold)


def _label(entry: Entry) -> str:
    settings = entry["settings"]
    if entry["decoder"] == EXACT:
        return f"exact, {settings['layout']}"
    if entry["decoder"] != "sliding_window":
        return str(entry["decoder"])
    extra = ", extra proposal" if settings["extra_proposal"] else ""
    return f"{'one token' if settings['threshold'] is None else 'τ = ' + format(settings['threshold'], 'g')}{extra}"


def _origin(entry: Entry) -> str:
    return f"{entry['hardware']}, {entry['date'][:10]}, commit {str(entry['commit'])[:10]}"

"""The model card of a checkpoint: its training and its measured results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.evaluations.evaluate import Evaluation, Plan
from analysis.text_table import markdown

TITLES = {"sft": "AR SFT", "mars": "MARS"}


Row = tuple[str, Evaluation]
"""One line of the table: a decoder, at one threshold."""


def model_card(
    name: str,
    record: Mapping[str, Any],
    rows: Sequence[Row],
    plan: Plan,
    measured: Mapping[str, Any],
) -> str:
    """Markdown with the YAML header that the Hub reads.

    `record` is the training record, `measured` the provenance of the evaluation.
    """
    return "\n".join(
        [
            *_header(record),
            f"# {name}",
            "",
            *_introduction(record),
            "",
            "## Measured",
            "",
            *_measured(plan, measured),
            "",
            _table(rows),
            "",
            "## Trained",
            "",
            *_training(record),
            "",
        ]
    )


def _header(record: Mapping[str, Any]) -> list[str]:
    tags = ["mars", "multi-token-prediction"] if record["stage"] == "mars" else ["synthetic"]
    return ["---", "license: apache-2.0", "library_name: transformers", "language: en", f"tags: {tags}", "---", ""]


def _introduction(record: Mapping[str, Any]) -> list[str]:
    world = "Six families of synthetic problems are all it knows; it is made to be looked at and measured."
    if record["stage"] == "sft":
        return [
            f"A small Qwen2 language model, trained from scratch by ordinary SFT: the AR baseline of MARS Lens. {world}"
        ]
    start = f"The AR SFT model after MARS training (arXiv 2604.07023) with block size {record['block_size']}."
    ability = "It fills masks appended to the text in one causal forward pass, and still writes one token at a time."
    return [f"{start} {ability} {world}"]


def _measured(plan: Plan, measured: Mapping[str, Any]) -> list[str]:
    problems = f"{plan.problems} held-out problems of each family, seed {plan.seed}, greedy"
    limits = f"at most {measured['max_new_tokens']} new tokens, batch {plan.batch_size}, {measured['dtype']}"
    where = f"{measured['hardware']}, {measured['date'][:10]}, commit {str(measured['commit'])[:12]}"
    return [f"{problems}, {limits}; {where}. Intervals are 95 % (Wilson).", "", f"    {measured['command']}"]


def _table(rows: Sequence[Row]) -> str:
    tasks = rows[0][1].scores
    lines = [["decoder", "τ", "mean accuracy", "95 % interval", "tokens/forward", *tasks]]
    return markdown([*lines, *(_line(*row) for row in rows)])


def _line(decoder: str, evaluation: Evaluation) -> list[str]:
    overall = evaluation.overall
    low, high = overall.interval
    return [
        decoder,
        "–" if evaluation.threshold is None else f"{evaluation.threshold:g}",
        f"{overall.accuracy:.1%}",
        f"{low:.1%} – {high:.1%}",
        f"{overall.tokens_per_forward:.2f}",
        *(f"{score.accuracy:.0%}" for score in evaluation.scores.values()),
    ]


def _training(record: Mapping[str, Any]) -> list[str]:
    lines = []
    step: Mapping[str, Any] | None = record
    while step:
        origin, measured = step["provenance"], step["measured"]
        amount = f"{measured['examples']:,} conversations, {measured['steps']:,} steps"
        time = f"{measured['seconds'] / 60:.0f} minutes on {origin['hardware']}, {origin['date'][:10]}"
        versions = (
            f"commit {str(origin['commit'])[:12]}, torch {origin['torch']}, transformers {origin['transformers']}"
        )
        lines += [f"{TITLES[step['stage']]}: {amount}, {time}, {versions}.", "", f"    {origin['command']}", ""]
        step = step.get("started_from")
    return lines[:-1]

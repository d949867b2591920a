"""Shared by the commands: --json, lists of numbers, and the provenance of a result."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from analysis.benchmarks.questions import Families
from analysis.benchmarks.spec_bench import read_questions
from analysis.studies import study_of
from mars.options import add_setting
from mars.provenance import hardware, provenance

DEFAULT_CHECKPOINT = "assets/checkpoints/mars-b8"


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="also print one JSON object, as the last line")


def print_json(options: argparse.Namespace, **values: Any) -> None:
    """Print an object with these fields if --json asks for it."""
    if options.json:
        sys.stdout.write(json.dumps(values, allow_nan=False) + "\n")


def add_prompt_options(parser: argparse.ArgumentParser, *, problems: int) -> None:
    """Add the options of `prompts_of`, and those of how to decode them that `bench` and `agree` share."""
    add = parser.add_argument
    about = f"held-out problems of each family (default: {problems})"
    add("--problems", type=int, default=problems, metavar="N", help=about)
    add("--seed", type=int, default=0, metavar="S", help="another seed takes other problems (default: 0)")
    add("--questions", type=Path, metavar="FILE", help="first turns of a file in Spec-Bench's form instead of problems")
    add("--limit", type=int, metavar="N", help="with --questions: only the first N of each category")
    add("--threshold", default="0.95", metavar="T", help="for decoders that name none (default: 0.95)")
    add_setting(parser, "max_new_tokens")


def prompts_of(options: argparse.Namespace) -> tuple[list[str], str]:
    """The texts of the prompts, and what they are."""
    if options.questions is not None:
        questions = read_questions(options.questions, options.limit)
        return [question.turns[0] for question in questions], f"first turns of {options.questions}"
    problems = Families(problems=options.problems, seed=options.seed)
    texts = [problems.question(place).turns[0] for place in range(len(problems))]
    return texts, f"held-out problems, seed {options.seed}"


def parse_sizes(text: str, what: str = "batch sizes") -> tuple[int, ...]:
    """Whole numbers >= 1, separated by commas; ValueError, which says `what` they are, where they are not."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 and int(word) for word in words):
        raise ValueError(f"{what} must be whole numbers >= 1, separated by commas, got {text!r}")
    return tuple(map(int, words))


def machine(dtype: str, device: torch.device) -> str:
    """The machine of a run, for people."""
    threads = "" if device.type == "cuda" else f", torch threads: {torch.get_num_threads()}"
    return f"{dtype}, {hardware(str(device))}{threads}"


def command_provenance(device: torch.device) -> dict[str, Any]:
    """`mars.provenance` of the command that runs, on this device."""
    return provenance(shlex.join(["python", "-m", "analysis", *sys.argv[1:]]), str(device))


def described_run(dtype: str, device: torch.device) -> dict[str, Any]:
    """The machine of a run, for programs."""
    return {
        "dtype": dtype,
        "device": str(device),
        "threads": torch.get_num_threads(),
        **command_provenance(device),
    }


def run_provenance(described: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of an entry of the run store, from the result of `described_run`."""
    found = {name: value for name, value in described.items() if name not in ("dtype", "device")}
    return {**found, "processes": 1, "plan": study_of(str(found["command"]))}

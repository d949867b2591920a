"""`python -m analysis lm-eval`: tasks of EleutherAI's lm-evaluation-harness, answered by one of our decoders."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from analysis.commands.shared import add_json_option, described_run, machine, print_json, run_provenance
from analysis.sweeps.models import describe
from analysis.text_table import table_of
from mars import decoders
from mars.checkpoint.checkpoint import check_draft, load
from mars.config import DecodingSettings
from mars.options import add_decoding_options, decoding_settings

HELP = "tasks of EleutherAI's lm-evaluation-harness, with tokens per forward beside the accuracy"
DEFAULT_RUNS = "runs/lm-eval"
_OF_TASKS = {"max_new_tokens": "max_gen_toks", "temperature": "temperature", "top_p": "top_p"}
"""Options that override what a task says, and the harness's words for them."""
_FIELDS = (
    *("include_path", "limit", "num_fewshot", "fewshot_seed", "apply_chat_template", "fewshot_as_multiturn"),
    *("system_instruction", "metric", "confirm_run_unsafe_code"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_decoding_options(parser, tasks_decide=True)
    add = parser.add_argument
    add("--tasks", required=True, metavar="A,B", help="tasks, groups or tags of the harness, such as gsm8k_cot,ifeval")
    add("--include-path", type=Path, metavar="DIR", help="folder with YAML files of further tasks")
    add("--limit", type=int, metavar="N", help="only the first N questions of each task")
    add("--num-fewshot", type=int, metavar="N", help="examples before each question (default: as the task says)")
    add("--fewshot-seed", type=int, default=1234, metavar="S", help="for tasks that draw examples (default: 1234)")
    add("--apply-chat-template", action="store_true", help="ask in the turns of the checkpoint's chat template")
    add(
        "--fewshot-as-multiturn",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with --apply-chat-template, each example in turns of its own (the default)",
    )
    add("--system-instruction", metavar="TEXT", help="text before everything else")
    add("--metric", metavar="M[,F]", help="metric and filter that judge an answer (default: the task's first)")
    add("--batch-size", type=int, default=16, metavar="B", help="questions that decode at once (default: 16)")
    add("--runs", type=Path, default=Path(DEFAULT_RUNS), metavar="DIR", help=f"run store (default: {DEFAULT_RUNS})")
    add("--confirm-run-unsafe-code", action="store_true", help="let tasks run the code that the model writes")
    add_json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Run the tasks, print a table and put the runs into the store; a progress bar goes to stderr.

    After an interruption the same command goes on where it stopped; tasks that the store has are not run again.
    """
    if options.batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {options.batch_size}")
    decoders.check_name(options.decoder)
    check_draft(options)
    _settings(options, None)
    if find_spec("lm_eval") is None:
        raise ValueError("the evaluation harness is not installed: pip install -r requirements-eval.txt")
    # Imported late: the harness takes seconds, and is there only where somebody has asked for it.
    from analysis.harness.evaluation import COLUMNS, TaskOptions, evaluate, load_tasks
    from analysis.harness.model import MarsLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    generation = {word: getattr(options, name) for name, word in _OF_TASKS.items()}
    generation = {word: value for word, value in generation.items() if value is not None}
    if "temperature" in generation:
        generation["do_sample"] = generation["temperature"] > 0
    task_options = TaskOptions(
        tasks=tuple(name.strip() for name in options.tasks.split(",")),
        generation=generation,
        **{name: getattr(options, name) for name in _FIELDS},
    )
    loaded = load_tasks(task_options)
    checkpoint = load(options)
    settings = _settings(options, checkpoint.block_size)
    setting = {
        "model": describe(options.checkpoint, options.base),
        "draft": None if options.draft is None else describe(options.draft),
        "decoder": options.decoder,
        "settings": asdict(settings),
        "batch_size": options.batch_size,
        "dtype": checkpoint.dtype,
        "device": checkpoint.engine.device.type,
    }
    described = described_run(checkpoint.dtype, checkpoint.engine.device)
    lm = MarsLM(checkpoint, options.decoder, settings, batch_size=options.batch_size)
    findings = evaluate(lm, setting, task_options, loaded, options.runs, run_provenance(described))
    sys.stdout.write(table_of(findings, COLUMNS) + "\n")
    for finding in findings:
        if finding.run is not None:
            sys.stdout.write(f"{options.runs} has {finding.run}.\n")
        elif finding.rows is None:
            sys.stdout.write(f"{finding.task}: the model writes no answers, so nothing is stored.\n")
        else:
            told = f"{finding.metric} does not say which answers are right; not stored (see --metric)"
            sys.stdout.write(f"{finding.task}: {told}.\n")
    sys.stdout.write(f"{checkpoint.name}, {machine(checkpoint.dtype, checkpoint.engine.device)}.\n")
    names = ("checkpoint", "draft", "decoder", "batch_size", "limit")
    print_json(
        options,
        tasks=[finding.told() for finding in findings],
        settings=asdict(settings),
        runs=str(options.runs),
        **{name: getattr(options, name) for name in names},
        **described,
    )


def _settings(options: argparse.Namespace, block_size: int | None) -> DecodingSettings:
    """The settings from the options; those left to the tasks have their defaults."""
    defaults = asdict(DecodingSettings())
    given = {name: value for name, value in vars(options).items() if value is not None or name not in _OF_TASKS}
    return decoding_settings(argparse.Namespace(**{**defaults, **given}), block_size)

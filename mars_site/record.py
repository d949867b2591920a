"""Record a run to a file: `python -m mars_site.record --help`. The page opens it, and the shipped runs were made so."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.compare import problems
from app.compare.lane import MOST_ALTERNATIVES, Lane, keep
from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.options import add_device_options, add_setting
from mars.schema import as_json, checked
from mars_tasks import TASKS

EPILOG = """\
example:
  python -m mars_site.record --task word_problems --seed 2 --output run.json \\
      --lane AR assets/checkpoints/ar-sft autoregressive \\
      --lane "MARS τ 0.95" assets/checkpoints/mars-b8 sliding_window threshold=0.95

A setting is any field of mars.config.DecodingSettings; the block size is the checkpoint's unless it is given.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m mars_site.record",
        description="Let one or more lanes answer a question, one after the other, and write the run to a file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = command.add_argument
    add(
        "--lane",
        nargs="+",
        action="append",
        required=True,
        metavar="WORD",
        help="TITLE CHECKPOINT DECODER [SETTING=VALUE …]; give it once for each lane",
    )
    add("--task", choices=tuple(TASKS), help="family of the problem to ask")
    add("--seed", type=int, default=0, help="seed of the problem (default: 0)")
    add("--prompt", metavar="TEXT", help="what to ask instead of a problem")
    add_setting(command, "max_new_tokens")
    add("--title", default="", help="what the run is called in the page")
    add("--note", default="", help="what to look at, in a sentence or two")
    add_device_options(command, dtype=False)
    add("--output", type=Path, required=True, metavar="FILE.json", help="where to write the run")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Record; 0, or 2 for bad input."""
    try:
        _record(parser().parse_args(arguments))
    except ValueError as error:
        sys.stderr.write(f"mars_site.record: {error}\n")
        return 2
    return 0


def _record(options: argparse.Namespace) -> None:
    problem = problems.find(options.task, options.seed) if options.task else None
    prompt = problem.prompt if problem else options.prompt
    if not prompt:
        raise ValueError("say what to ask, with --task and --seed or with --prompt")
    for words in options.lane:  # before anything is loaded
        _settings(words, options.max_new_tokens)
    if not options.output.parent.is_dir():
        raise ValueError(f"--output {options.output} cannot be written: there is no folder {options.output.parent}")
    lanes = [_write(words, prompt, options) for words in options.lane]
    for lane in lanes:
        lane.right = problems.is_right(problem, lane.text) if problem else None
    said = {"title": options.title, "note": options.note}
    run = keep(uuid4().hex, prompt, options.max_new_tokens, lanes, problem=problem, **said)
    options.output.write_text(as_json(run) + "\n", encoding="utf-8")


def _settings(words: Sequence[str], max_new_tokens: int, block_size: int | None = None) -> DecodingSettings:
    """The settings of a --lane, with this block size unless it names one; ValueError for what cannot be."""
    if len(words) < 3:
        raise ValueError(f"--lane needs TITLE CHECKPOINT DECODER, got {' '.join(words)!r}")
    title, _, decoder, *named = words
    decoders.check_name(decoder, "a lane's decoder")
    usual = {"max_new_tokens": max_new_tokens, "alternatives": MOST_ALTERNATIVES}
    usual |= {"block_size": block_size} if block_size else {}
    given = {name: _value(value) for name, _, value in (setting.partition("=") for setting in named)}
    found: DecodingSettings = checked(DecodingSettings, {**usual, **given}, f"--lane {title}")
    return found


def _value(text: str) -> Any:
    try:
        return json.loads({"none": "null"}.get(text, text))
    except json.JSONDecodeError:
        return text


def _write(words: Sequence[str], prompt: str, options: argparse.Namespace) -> Lane:
    from mars.checkpoint import load_checkpoint  # late: torch takes seconds, and a wrong option is said before
    from mars.decoding import DECODERS

    title, source, decoder, *_ = words
    checkpoint = load_checkpoint(source, device=options.device)
    settings, ids = _settings(words, options.max_new_tokens, checkpoint.block_size), checkpoint.encode(prompt)
    key = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "lane"
    lane = Lane(key, title, decoder, checkpoint, settings, len(ids))
    control = Control(settings.threshold, settings.score, trace=True)
    for record in DECODERS[decoder](checkpoint.engine, [ids], settings, control):
        lane.add(record)
    lane.end()
    return lane


if __name__ == "__main__":
    sys.exit(main())

"""The commands of `python -m analysis`: each a module with `HELP`, one line, `add_options(parser)` and `run(options)`.

`run` prints tables for people and, with --json, an object for programs as the last line; a progress bar goes to stderr.
It returns the exit code, or None for 0, and raises ValueError with one sentence about the input at fault.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

COMMANDS = (
    *("evaluate", "bench", "agree", "breakdown", "card", "columns", "claims", "draw-prompts", "gpu", "ifeval"),
    *("lm-eval", "measured", "report", "reproduce", "spec-bench", "sweep"),
)


def module_of(command: str) -> ModuleType:
    """The module of a command, imported when it is asked for: it runs on a machine that lacks what others need."""
    return import_module(f"{__name__}.{command.replace('-', '_')}")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="also print one JSON object, as the last line")


def print_json(options: argparse.Namespace, **found: Any) -> None:
    """Print an object with these fields if --json asks for it."""
    if options.json:
        sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")

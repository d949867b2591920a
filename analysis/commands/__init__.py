"""The commands of `python -m analysis`: each a module with `HELP`, one line, `add_options(parser)` and `run(options)`.

`run` prints tables for people and, with --json, an object for programs as the last line; a progress bar goes to stderr.
It returns the exit code, or None for 0, and raises ValueError with one sentence about the input at fault.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

COMMANDS = "evaluate ifeval spec-bench agree bench columns sweep calibrate card measured claims reproduce".split()


def module_of(command: str) -> ModuleType:
    """The module of a command, imported when it is asked for: it runs on a machine that lacks what others need."""
    return import_module(f"{__name__}.{command.replace('-', '_')}")

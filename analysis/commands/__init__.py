"""The commands of `python -m analysis`: each a module with `HELP`, one line, `add_options(parser)` and `run(options)`.

`run` returns the exit code, or None for 0, and raises ValueError with one sentence about the input at fault.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

COMMANDS = (
    *("evaluate", "bench", "agree", "breakdown", "card", "columns", "claims", "gpu", "ifeval", "lm-eval", "measured"),
    *("report", "reproduce", "spec-bench", "sweep"),
)


def module_of(command: str) -> ModuleType:
    """The module of a command, imported when it is asked for: it runs on a machine that lacks what others need."""
    return import_module(f"{__name__}.{command.replace('-', '_')}")

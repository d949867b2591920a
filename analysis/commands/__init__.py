"""The commands of `python -m analysis`, by name. A command's module is imported when the command is asked for."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: the module that has its one line of help, the options it adds, and what it does.

    So a command runs on a machine that lacks what other commands need.
    """

    module: str

    @property
    def _loaded(self) -> ModuleType:
        return import_module(f"analysis.commands.{self.module}")

    @property
    def help(self) -> str:
        """One line."""
        return str(self._loaded.HELP)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options."""
        self._loaded.add_options(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit code.

        Raises:
            ValueError: one sentence about the input at fault.
        """
        return int(self._loaded.run(options) or 0)


COMMANDS: dict[str, Command] = {
    "evaluate": Command("evaluate"),
    "bench": Command("bench"),
    "agree": Command("agree"),
    "card": Command("card"),
    "columns": Command("columns"),
    "claims": Command("claims"),
    "gpu": Command("gpu"),
    "ifeval": Command("ifeval"),
    "lm-eval": Command("lm_eval"),
    "measured": Command("measured"),
    "report": Command("report"),
    "reproduce": Command("reproduce"),
    "spec-bench": Command("spec_bench"),
    "sweep": Command("sweep"),
}

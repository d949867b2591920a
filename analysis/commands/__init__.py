"""The commands of `python -m analysis`, by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from analysis.commands import (
    agree,
    bench,
    card,
    claims,
    columns,
    evaluate,
    ifeval,
    lm_eval,
    measured,
    report,
    spec_bench,
    sweep,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand: one line of help, the options it adds, and what it does; input errors are ValueErrors.

    `run` returns the exit code; None is 0.
    """

    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


COMMANDS: dict[str, Command] = {
    "evaluate": Command(help=evaluate.HELP, add_options=evaluate.add_options, run=evaluate.run),
    "bench": Command(help=bench.HELP, add_options=bench.add_options, run=bench.run),
    "agree": Command(help=agree.HELP, add_options=agree.add_options, run=agree.run),
    "card": Command(help=card.HELP, add_options=card.add_options, run=card.run),
    "columns": Command(help=columns.HELP, add_options=columns.add_options, run=columns.run),
    "claims": Command(help=claims.HELP, add_options=claims.add_options, run=claims.run),
    "ifeval": Command(help=ifeval.HELP, add_options=ifeval.add_options, run=ifeval.run),
    "lm-eval": Command(help=lm_eval.HELP, add_options=lm_eval.add_options, run=lm_eval.run),
    "measured": Command(help=measured.HELP, add_options=measured.add_options, run=measured.run),
    "report": Command(help=report.HELP, add_options=report.add_options, run=report.run),
    "spec-bench": Command(help=spec_bench.HELP, add_options=spec_bench.add_options, run=spec_bench.run),
    "sweep": Command(help=sweep.HELP, add_options=sweep.add_options, run=sweep.run),
}

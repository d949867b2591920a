"""`python -m analysis gpu`: all measurements that need a GPU, step by step, the most valuable first. No torch here."""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache
from pathlib import Path

from analysis.gpu.running import LIMIT_MINUTES, Outcome, OutcomeFile, hindrance, run_step
from analysis.gpu.steps import SHIPPED_AR, Setup, Step, steps_of, write_inputs
from analysis.gpu.targets import targets
from analysis.text_table import aligned

HELP = "all measurements that need a GPU, in steps of at most ten minutes that can be resumed"
FAILED = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/gpu"), metavar="DIR", help="results and state (default: runs/gpu)")
    add("--device", default="cuda", choices=("cuda", "cpu"), help="cpu is for a rehearsal (default: cuda)")
    add("--tiny", action="store_true", help="rehearse every step with the smallest sizes; its figures mean nothing")
    add("--base", metavar="SOURCE", help="the model that an adapter is trained on (default: smollm2-135m)")
    add("--training", type=float, default=17.0, metavar="N", help="minutes of training an adapter (default: 17)")
    add("--step", action="append", metavar="NAME", help="only this step, even if it is done; may be given again")
    add("--minutes", type=float, metavar="N", help="start no step that may take longer than what is left of N minutes")
    add("--list", action="store_true", help="print the steps and their states, and run none")


def run(options: argparse.Namespace) -> int:
    """Run the remaining steps; print how each ended, which targets were met and what is left."""
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"minutes must be > 0, got {options.minutes}")
    if not options.training > 0:
        raise ValueError(f"training must be > 0, got {options.training}")
    base = options.base or (SHIPPED_AR if options.tiny else "smollm2-135m")
    setup = Setup(out=options.out, device=options.device, base=base, training=options.training, tiny=options.tiny)
    steps = _chosen(steps_of(setup), options.step)
    outcome_file = OutcomeFile(setup)
    if not options.list:
        if setup.tiny:
            write_inputs(setup.inputs)
        _run_all(steps, setup, outcome_file, options.minutes, named=bool(options.step))
    _print(steps_of(setup), setup, outcome_file)
    ended = [outcome_file.outcomes[step.name] for step in steps if step.name in outcome_file.outcomes]
    failed = any(outcome.state == "failed" for outcome in ended)
    return FAILED if failed and not options.list else 0


def _chosen(steps: tuple[Step, ...], names: list[str] | None) -> list[Step]:
    known = [step.name for step in steps]
    if names and (unknown := [name for name in names if name not in known]):
        raise ValueError(f"step must be one of {', '.join(known)}, got {unknown[0]!r}")
    return [step for step in steps if not names or step.name in names]


def _run_all(steps: list[Step], setup: Setup, outcome_file: OutcomeFile, minutes: float | None, *, named: bool) -> None:
    """Run the steps in order; a step that is done or has failed runs again only if it was named."""
    begin = time.monotonic()
    for step in steps:
        before = outcome_file.outcomes.get(step.name)
        if not named and before is not None and before.state in ("done", "failed"):
            continue
        left = LIMIT_MINUTES if minutes is None else minutes - (time.monotonic() - begin) / 60
        if (why := hindrance(step, outcome_file, lambda: _unavailable(setup.base))) is not None:
            outcome_file.note(step.name, Outcome(state="skipped", seconds=0.0, date="", why=why))
            continue
        if minutes is not None and left < step.minutes and not step.goes_on:
            sys.stderr.write(f"{step.name}: may take {step.minutes:g} minutes, and {max(left, 0):.1f} are left\n")
            return
        if left <= 0:
            return
        sys.stderr.write(f"{step.name}: {step.does}\n")
        outcome_file.note(step.name, run_step(step, setup, left))
        outcome = outcome_file.outcomes[step.name]
        why = f": {outcome.why}" if outcome.why else ""
        sys.stderr.write(f"{step.name}: {outcome.state} in {outcome.seconds:.0f} s{why}\n")


@cache
def _unavailable(source: str) -> str | None:
    """One sentence why the base cannot be read here."""
    from mars.checkpoint.sources import unavailable  # brings pydantic, which may be missing

    return unavailable(source)


def _print(steps: tuple[Step, ...], setup: Setup, outcome_file: OutcomeFile) -> None:
    lines: list[tuple[str, ...]] = [("step", "state", "seconds", "what it does")]
    for step in steps:
        outcome = outcome_file.outcomes.get(step.name)
        state, seconds = ("waits", "") if outcome is None else (outcome.state, f"{outcome.seconds:.0f}")
        lines.append((step.name, state, seconds, step.does))
    sys.stdout.write(f"{aligned(lines)}\n")
    if setup.tiny:
        sys.stdout.write("\nA rehearsal: its figures mean nothing.\n")
    elif found := targets(setup.runs):
        bounds = [("target", "bound", "measured", "")]
        for each in found:
            sign = "≥" if each.least else "≤"
            bounds.append((each.says, f"{sign} {each.bound:g}", f"{each.value:.2f}", "met" if each.met else "missed"))
        sys.stdout.write(f"\n{aligned(bounds)}\n")
    left = [step for step in steps if not outcome_file.is_done(step.name)]
    sys.stdout.write(f"\n{len(steps) - len(left)} of {len(steps)} steps are done")
    sys.stdout.write(f"; left: {', '.join(step.name for step in left)}.\n" if left else ".\n")
    for step in left:
        if (outcome := outcome_file.outcomes.get(step.name)) is not None and outcome.why:
            sys.stdout.write(f"{step.name}: {outcome.why}\n")
    sys.stdout.write(f"Results: {setup.runs}; logs: {setup.out / 'logs'}.\n")

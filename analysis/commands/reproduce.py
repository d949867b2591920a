"""`python -m analysis reproduce`: list the commands behind each figure and claim, or run them again."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.claims import CLAIMS
from analysis.figures.catalogue import DESCRIPTIONS
from analysis.recipes import RECIPES, RUNS, Recipe, in_order
from analysis.runs import read_runs
from analysis.runs.files import remove_runs
from analysis.text_table import aligned

HELP = "list every figure and claim with the command, the hours and the machine behind it, or make some again"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="claim-9, figure-frontier or the name of a recipe; without any: the list",
    )
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"the run store (default: {RUNS})")
    add("--again", action="store_true", help="first remove the runs that these commands made")
    add("--dry-run", action="store_true", help="print the commands, and run none")
    add("--json", action="store_true", help="with the list: also print one JSON object, as the last line")


def run(options: argparse.Namespace) -> int:
    """List the recipes, or run those behind the given names and then judge or draw."""
    if not options.names:
        _list(options)
        return 0
    known = _known()
    if unknown := [name for name in options.names if name not in known]:
        raise ValueError(f"name must be one of {', '.join(known)}, got {unknown[0]!r}")
    recipes = in_order(dict.fromkeys(recipe for name in options.names for recipe in known[name]))
    recipes = [recipe for recipe in recipes if not _is_there(recipe)]
    commands = [recipe.line(str(options.runs)) for recipe in recipes]
    commands += _afterwards(options.names, options.runs)
    if options.dry_run:
        sys.stdout.write("".join(f"{command}\n" for command in commands))
        return 0
    if options.again:
        removed = _remove(recipes, options.runs)
        sys.stderr.write(f"removed {removed} runs of {', '.join(recipe.name for recipe in recipes)}\n")
    options.runs.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _call(command)
    return 0


def _remove(recipes: Sequence[Recipe], runs: Path) -> int:
    """Remove the runs that the recipes would make here; returns how many.

    Benchmarks that another kind of machine timed are runs of their own, which would not be made again: they stay.
    """
    from mars.provenance import hardware  # brings torch

    here = hardware()

    def unwanted(entry: Mapping[str, Any]) -> bool:
        if not any(_is_of(recipe, entry) for recipe in recipes):
            return False
        elsewhere = entry.get("device") == "cpu" and entry.get("hardware") != here
        return not (elsewhere and entry.get("timed") and entry.get("harness"))

    return remove_runs(runs, unwanted)


def _is_of(recipe: Recipe, entry: Mapping[str, Any]) -> bool:
    """Whether the recipe made the run of this entry."""
    of_plan = recipe.plan is not None and entry.get("plan") == recipe.plan
    return of_plan or recipe.made(str(entry.get("command")))


def _is_there(recipe: Recipe) -> bool:
    """Whether the models that a recipe trains exist already: training them takes hours."""
    return recipe.name == "ablation-models" and Path("runs/ablations/mars-b16/model.safetensors").is_file()


def _known() -> dict[str, tuple[str, ...]]:
    """The recipes behind each name."""
    claims = {f"claim-{claim.number}": (*claim.recipes, *claim.on_real) for claim in CLAIMS}
    figures = {f"figure-{name}": description.recipes for name, description in DESCRIPTIONS.items()}
    return {**claims, **figures, **{name: (name,) for name in RECIPES}}


def _afterwards(names: Sequence[str], runs: Path) -> list[str]:
    """The commands that judge and draw the runs."""
    own = runs == Path(RUNS)
    made = {
        "claim-": ("claims", "docs/claims.md" if own else str(runs / "claims.md")),
        "figure-": ("report", "runs/report" if own else str(runs / "report")),
    }
    return [
        shlex.join(["python", "-m", "analysis", command, "--runs", str(runs), "--out", out])
        for start, (command, out) in made.items()
        if any(name.startswith(start) for name in names)
    ]


def _call(command: str) -> None:
    """Run a shell command; `python` in it is this interpreter."""
    shell = shutil.which("bash")
    if shell is None:
        raise ValueError("bash was not found: run the commands of --dry-run yourself")
    sys.stderr.write(f"$ {command}\n")
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run([shell, "-o", "pipefail", "-c", command], env={**os.environ, "PATH": places}, check=False)
    if done.returncode:
        raise ValueError(f"this command ended with exit code {done.returncode}: {command}")


def _list(options: argparse.Namespace) -> None:
    entries = read_runs(options.runs).entries
    behind = _known()
    rows = [("name", "what", "recipes")]
    rows += [(f"claim-{claim.number}", claim.title, ", ".join(behind[f"claim-{claim.number}"])) for claim in CLAIMS]
    rows += [(f"figure-{name}", each.title, ", ".join(each.recipes)) for name, each in DESCRIPTIONS.items()]
    sys.stdout.write(aligned(rows, numbers=False) + "\n\n")
    lines = [("recipe", "hours", "machine", "runs here", "what it makes")]
    for name, recipe in RECIPES.items():
        count = sum(_is_of(recipe, entry) for entry in entries)
        lines.append((name, f"about {recipe.hours:g}", recipe.machine, str(count or "–"), recipe.makes))
    sys.stdout.write(aligned(lines, numbers=False) + "\n\n")
    for name, recipe in RECIPES.items():
        sys.stdout.write(f"{name}: {recipe.line(str(options.runs))}\n")
    if options.json:
        described = {name: list(recipes) for name, recipes in behind.items()}
        found = {
            name: {"hours": recipe.hours, "machine": recipe.machine, "commands": [recipe.line(str(options.runs))]}
            for name, recipe in RECIPES.items()
        }
        sys.stdout.write(json.dumps({"names": described, "recipes": found}) + "\n")

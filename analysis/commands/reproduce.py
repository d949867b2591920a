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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from analysis.claims import CLAIMS
from analysis.figures.catalogue import DESCRIPTIONS, UNDER_LOAD
from analysis.recipes import RECIPES, RUNS, Recipe, in_order
from analysis.runs import open_runs, read_runs
from analysis.runs.files import remove_runs
from analysis.runs.loads import LoadTest, read_loads, remove_loads
from analysis.text_table import aligned

FIGURES = {**DESCRIPTIONS, "under-load": UNDER_LOAD}
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
        sys.stderr.write(f"removed {removed} runs or load tests of {', '.join(recipe.name for recipe in recipes)}\n")
    options.runs.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _call(command)
    return 0


def _remove(recipes: Sequence[Recipe], runs: Path) -> int:
    """Remove the runs and load tests that the recipes would make here; returns how many.

    Benchmarks and load tests that another kind of machine timed would not be made again here: they stay.
    """
    from mars.provenance import hardware  # brings torch

    here = hardware()

    def unwanted(entry: Mapping[str, Any]) -> bool:
        if not any(_is_of(recipe, entry) for recipe in recipes):
            return False
        elsewhere = entry.get("device") == "cpu" and entry.get("hardware") != here
        return not (elsewhere and entry.get("timed") and entry.get("harness"))

    def stale(test: LoadTest) -> bool:
        return test.hardware == here and any(recipe.made(test.command) for recipe in recipes)

    return remove_runs(runs, unwanted) + remove_loads(runs, stale)


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
    figures = {f"figure-{name}": description.recipes for name, description in FIGURES.items()}
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
    entries, loads = _entries(options.runs), read_loads(options.runs)[0]
    behind = {name: _Behind.of(recipes) for name, recipes in _known().items()}
    titles = {f"claim-{claim.number}": claim.title for claim in CLAIMS}
    titles |= {f"figure-{name}": each.title for name, each in FIGURES.items()}
    rows = [("name", "hours", "machine", "what", "recipes")]
    for name, title in titles.items():
        each = behind[name]
        rows.append((name, f"about {each.hours:g}", ", ".join(each.machines), title, ", ".join(each.recipes)))
    sys.stdout.write(aligned(rows, numbers=False) + "\n\n")
    lines = [("recipe", "hours", "machine", "runs here", "what it makes")]
    for name, recipe in RECIPES.items():
        count = sum(_is_of(recipe, entry) for entry in entries) + sum(recipe.made(test.command) for test in loads)
        lines.append((name, f"about {recipe.hours:g}", recipe.machine, str(count or "–"), recipe.makes))
    sys.stdout.write(aligned(lines, numbers=False) + "\n\n")
    for name, recipe in RECIPES.items():
        sys.stdout.write(f"{name}: {recipe.line(str(options.runs))}\n")
    if options.json:
        found = {
            name: {"hours": recipe.hours, "machine": recipe.machine, "commands": [recipe.line(str(options.runs))]}
            for name, recipe in RECIPES.items()
        }
        names = {name: asdict(each) for name, each in behind.items()}
        sys.stdout.write(json.dumps({"names": names, "recipes": found}) + "\n")


def _entries(runs: Path) -> Sequence[Mapping[str, Any]]:
    """What the index lists; the runs themselves, whose reading takes seconds, are not looked at."""
    try:
        return open_runs(runs).entries
    except (LookupError, TypeError, ValueError):
        return read_runs(runs).entries  # of what is missing or damaged, what can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """What a claim or figure rests on: its recipes, and the hours and machines of these and of what they need first."""

    recipes: tuple[str, ...]
    hours: float
    machines: tuple[str, ...]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Self:
        recipes = in_order(names)
        hours = round(sum(recipe.hours for recipe in recipes), 2)
        return cls(recipes=names, hours=hours, machines=tuple(dict.fromkeys(recipe.machine for recipe in recipes)))

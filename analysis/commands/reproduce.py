"""`python -m analysis reproduce`: list the commands behind each figure and claim, or run them again."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from analysis.claims import CLAIMS
from analysis.figures import FIGURES
from analysis.runs import read_runs
from analysis.studies import RUNS, STUDIES, Study, behind_claim, behind_figure, in_order
from analysis.text_table import aligned

HELP = "list every figure and claim with the command, the hours and the machine behind it, or make missing runs"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    names = "claim-9, figure-frontier or the name of a study; without any: the list"
    add("names", nargs="*", metavar="NAME", help=names)
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"the run store (default: {RUNS})")
    add("--dry-run", action="store_true", help="print the commands, and run none")


def run(options: argparse.Namespace) -> None:
    """List the studies, or run those behind the given names and then judge the claims."""
    known = _known()
    if not options.names:
        _list(known, options.runs)
        return
    if unknown := [name for name in options.names if name not in known]:
        raise ValueError(f"name must be one of {', '.join(known)}, got {unknown[0]!r}")
    studies = in_order(dict.fromkeys(study for name in options.names for study in known[name]))
    commands = [study.line(str(options.runs)) for study in studies if not _is_there(study)]
    if any(name.startswith("claim-") for name in options.names):
        commands.append(shlex.join(["python", "-m", "analysis", "claims", "--runs", str(options.runs)]))
    if options.dry_run:
        sys.stdout.write("".join(f"{command}\n" for command in commands))
        return
    options.runs.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _call(command)


def _is_there(study: Study) -> bool:
    """Whether the models that a study trains exist already: training them takes hours."""
    return study.name == "ablation-models" and Path("runs/ablations/mars-b16/model.safetensors").is_file()


def _known() -> dict[str, tuple[str, ...]]:
    """The studies behind each name."""
    claims = {f"claim-{claim.number}": behind_claim(claim.number) for claim in CLAIMS}
    figures = {f"figure-{name}": behind_figure(name) for name in FIGURES}
    return {**claims, **figures, **{name: (name,) for name in STUDIES}}


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


def _list(known: dict[str, tuple[str, ...]], runs: Path) -> None:
    titles = {f"claim-{claim.number}": claim.title for claim in CLAIMS}
    titles |= {f"figure-{name}": each.question for name, each in FIGURES.items()}
    rows = [("name", "hours", "machine", "what", "studies")]
    for name, title in titles.items():
        studies = in_order(known[name])
        hours = round(sum(study.hours for study in studies), 2)
        machines = ", ".join(dict.fromkeys(study.machine for study in studies))
        rows.append((name, f"about {hours:g}", machines, title, ", ".join(known[name])))
    counts = Counter(entry["plan"] for entry in read_runs(runs).entries)
    lines = [("study", "hours", "machine", "runs here", "what it makes")]
    lines += [
        (study.name, f"about {study.hours:g}", study.machine, str(counts[study.name] or "–"), study.makes)
        for study in STUDIES.values()
    ]
    commands = "".join(f"{study.name}: {study.line(str(runs))}\n" for study in STUDIES.values())
    sys.stdout.write(f"{aligned(rows, numbers=False)}\n\n{aligned(lines, numbers=False)}\n\n{commands}")

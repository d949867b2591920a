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
from analysis.questions import FIGURES
from analysis.runs import open_runs, read_runs
from analysis.runs.files import remove_runs
from analysis.studies import RUNS, STUDIES, Study, behind_claim, behind_figure, in_order
from analysis.text_table import aligned

HELP = "list every figure and claim with the command, the hours and the machine behind it, or make some again"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="claim-9, figure-frontier or the name of a study; without any: the list",
    )
    add("--runs", type=Path, default=Path(RUNS), metavar="DIR", help=f"the run store (default: {RUNS})")
    add("--again", action="store_true", help="first remove the runs that these commands made")
    add("--dry-run", action="store_true", help="print the commands, and run none")
    add("--json", action="store_true", help="with the list: also print one JSON object, as the last line")


def run(options: argparse.Namespace) -> int:
    """List the studies, or run those behind the given names and then judge or draw."""
    if not options.names:
        _list(options)
        return 0
    known = _known()
    if unknown := [name for name in options.names if name not in known]:
        raise ValueError(f"name must be one of {', '.join(known)}, got {unknown[0]!r}")
    studies = in_order(dict.fromkeys(study for name in options.names for study in known[name]))
    studies = [study for study in studies if not _is_there(study)]
    commands = [study.line(str(options.runs)) for study in studies]
    commands += _afterwards(options.names, options.runs)
    if options.dry_run:
        sys.stdout.write("".join(f"{command}\n" for command in commands))
        return 0
    if options.again:
        removed = _remove(studies, options.runs)
        sys.stderr.write(f"removed {removed} runs of {', '.join(study.name for study in studies)}\n")
    options.runs.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _call(command)
    return 0


def _remove(studies: Sequence[Study], runs: Path) -> int:
    """Remove the runs that the studies would make here; returns how many.

    Benchmarks that another kind of machine timed would not be made again here: they stay.
    """
    from mars.provenance import hardware  # brings torch

    here = hardware()

    def unwanted(entry: Mapping[str, Any]) -> bool:
        if not any(_is_of(study, entry) for study in studies):
            return False
        elsewhere = entry.get("device") == "cpu" and entry.get("hardware") != here
        return not (elsewhere and entry.get("timed") and entry.get("harness"))

    return remove_runs(runs, unwanted)


def _is_of(study: Study, entry: Mapping[str, Any]) -> bool:
    """Whether the run of this entry belongs to the study."""
    return entry.get("plan") == study.name or study.made(str(entry.get("command")))


def _is_there(study: Study) -> bool:
    """Whether the models that a study trains exist already: training them takes hours."""
    return study.name == "ablation-models" and Path("runs/ablations/mars-b16/model.safetensors").is_file()


def _known() -> dict[str, tuple[str, ...]]:
    """The studies behind each name."""
    claims = {f"claim-{claim.number}": behind_claim(claim.number) for claim in CLAIMS}
    figures = {f"figure-{name}": behind_figure(name) for name in FIGURES}
    return {**claims, **figures, **{name: (name,) for name in STUDIES}}


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
    entries = _entries(options.runs)
    behind = {name: _Behind.of(studies) for name, studies in _known().items()}
    titles = {f"claim-{claim.number}": claim.title for claim in CLAIMS}
    titles |= {f"figure-{name}": each.question for name, each in FIGURES.items()}
    rows = [("name", "hours", "machine", "what", "studies")]
    for name, title in titles.items():
        each = behind[name]
        rows.append((name, f"about {each.hours:g}", ", ".join(each.machines), title, ", ".join(each.studies)))
    sys.stdout.write(aligned(rows, numbers=False) + "\n\n")
    lines = [("study", "hours", "machine", "runs here", "what it makes")]
    for name, study in STUDIES.items():
        count = sum(_is_of(study, entry) for entry in entries)
        lines.append((name, f"about {study.hours:g}", study.machine, str(count or "–"), study.makes))
    sys.stdout.write(aligned(lines, numbers=False) + "\n\n")
    for name, study in STUDIES.items():
        sys.stdout.write(f"{name}: {study.line(str(options.runs))}\n")
    if options.json:
        found = {
            name: {"hours": study.hours, "machine": study.machine, "commands": [study.line(str(options.runs))]}
            for name, study in STUDIES.items()
        }
        names = {name: asdict(each) for name, each in behind.items()}
        sys.stdout.write(json.dumps({"names": names, "studies": found}) + "\n")


def _entries(runs: Path) -> Sequence[Mapping[str, Any]]:
    """What the index lists; the runs themselves, whose reading takes seconds, are not looked at."""
    try:
        return open_runs(runs).entries
    except (LookupError, TypeError, ValueError):
        return read_runs(runs).entries  # of what is missing or damaged, what can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """What a claim or figure rests on: its studies, and the hours and machines of these and of what they need first."""

    studies: tuple[str, ...]
    hours: float
    machines: tuple[str, ...]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Self:
        studies = in_order(names)
        hours = round(sum(study.hours for study in studies), 2)
        return cls(studies=names, hours=hours, machines=tuple(dict.fromkeys(study.machine for study in studies)))

"""Runs steps, each as a process with a time limit; a file beside the results says how each ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from analysis.gpu.steps import Setup, Step

FILE = "gpu.json"
LIMIT_MINUTES = 9.8
"""The limit of one step: a machine that is lent for ten minutes at a time takes it back after that."""
State = Literal["done", "unfinished", "failed", "skipped"]
"""`unfinished`: the limit cut it off, and it goes on where it stopped when it is run again."""
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a step: its seconds, its date, and a sentence if it did not end well."""

    state: State
    seconds: float
    date: str
    why: str = ""


class OutcomeFile:
    """The outcomes of the steps by name, kept in a file of the folder."""

    def __init__(self, setup: Setup) -> None:
        """Read what is there.

        Raises:
            ValueError: the file is damaged, or of other steps.
        """
        self._path = setup.out / FILE
        self._of = {"device": setup.device, "base": setup.base, "tiny": setup.tiny}
        self.outcomes: dict[str, Outcome] = {}
        if not self._path.is_file():
            return
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            found = {name: Outcome(**outcome) for name, outcome in data["steps"].items()}
            of = data["of"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self._path} is damaged ({type(error).__name__}): remove it, or give another --out"
            ) from error
        if of != self._of:
            raise ValueError(f"{self._path} is of {_words(of)}, not of {_words(self._of)}: give another --out")
        self.outcomes = found

    def note(self, name: str, outcome: Outcome) -> None:
        """Keep how a step ended."""
        self.outcomes[name] = outcome
        steps = {name: asdict(each) for name, each in self.outcomes.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"of": self._of, "steps": steps}, indent=1) + "\n", encoding="utf-8")
        beside.replace(self._path)

    def is_done(self, name: str) -> bool:
        """Whether it ended well."""
        return name in self.outcomes and self.outcomes[name].state == "done"


def hindrance(step: Step, outcome_file: OutcomeFile, unavailable: Callable[[], str | None]) -> str | None:
    """One sentence why a step cannot run here; `unavailable` is the reason why the base cannot be read."""
    if missing := [name for name in step.needs if find_spec(name) is None]:
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed here"
    if waiting := [name for name in step.after if not outcome_file.is_done(name)]:
        return f"it needs the step {waiting[0]}"
    return unavailable() if step.base else None


def run_step(step: Step, setup: Setup, minutes: float = LIMIT_MINUTES) -> Outcome:
    """Run its commands, at most so long; what they print goes to a log, and the JSON of the last one to `result`."""
    begin = time.monotonic()
    until = begin + 60 * min(minutes, step.minutes, LIMIT_MINUTES)
    log = setup.out / "logs" / f"{step.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    state: State = "done"
    why = output = ""
    for command in step.commands:
        code, output = _call([sys.executable, *command], log, until - time.monotonic())
        if code is None:
            state, why = ("unfinished" if step.goes_on else "failed"), "its time was up"
        elif code:
            state, why = "failed", _last_words(log, code)
        if state != "done":
            break
    if step.result is not None and (found := _last_json(output)) is not None:
        step.result.parent.mkdir(parents=True, exist_ok=True)
        step.result.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    elif step.result is not None and state == "done":
        state, why = "failed", "it printed no result"
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Outcome(state=state, seconds=round(time.monotonic() - begin, 1), date=date, why=why)


def _call(words: Sequence[str], log: Path, seconds: float) -> tuple[int | None, str]:
    """The exit code, None if the time was up, and its output. Its child processes end with it."""
    with log.open("a", encoding="utf-8") as errors:
        errors.write(f"$ {' '.join(words)}\n")
        errors.flush()
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True, env=_environment()
        )
        try:
            output, _ = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            errors.write(output)
            return None, output
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        errors.write(output)
    return process.returncode, output


def _environment() -> dict[str, str]:
    """The environment: Python's output is not buffered, and it finds this repository and the tests' helpers."""
    paths = [".", "tests", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


def _last_json(output: str) -> Any:
    lines = output.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except ValueError:
        return None


def _last_words(log: Path, code: int) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("{") and "it/s" not in line]
    return f"exit code {code}: {said[-1][:_SHOWN]}" if said else f"exit code {code}"


def _words(of: dict[str, Any]) -> str:
    return f"{of.get('device')}, base {of.get('base')}{', tiny' if of.get('tiny') else ''}"

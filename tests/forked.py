"""Other processes for tests of several at once, or of one that is killed: forked where all has been imported.

Copies of this process would wait for threads of torch that are not copied.
"""

import os
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TextIO

LIMIT = 200
"""Seconds that `join` waits: long after any process should have ended."""

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.app.preloaded"])  # as tests/app/page_process.py has it: one server for both


def forked(run: Callable[[], int], *, out: Path, err: Path, **environment: str) -> ForkServerProcess:
    """Start a process that ends with the exit code of `run`, which can be pickled; it prints to these files."""
    process = PROCESSES.Process(target=_end_with, args=(run, out, err, environment))
    process.start()
    return process


def _end_with(run: Callable[[], int], out: Path, err: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    sys.stdout, sys.stderr = _stream(1, out), _stream(2, err)
    sys.exit(run())


def _stream(number: int, file: Path) -> TextIO:
    """Text that goes to the file, which gets this number, as that of a program of its own has."""
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    return open(number, "w", encoding="utf-8", closefd=False)

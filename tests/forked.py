"""Copies of this process, for tests of several at once or of one that is killed: a new one takes seconds to import."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TextIO

LIMIT = 200
"""Seconds that `join` waits: long after any copy should have ended."""


def forked(run: Callable[[], int], *, out: Path | int, err: Path, **environment: str) -> ForkProcess:
    """Start a copy that ends with the exit code of `run`, with these variables; it prints to these files.

    `out` may be the number of an open file. Tests that fork have set torch to one thread (`one_thread`): its others,
    for which it would wait, are not copied.
    """

    def copy() -> None:
        os.environ.update(environment)
        sys.stdout, sys.stderr = _stream(1, out), _stream(2, err)
        sys.exit(run())

    process = get_context("fork").Process(target=copy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of the threads of pytest-xdist
        process.start()
    return process


def _stream(number: int, target: Path | int) -> TextIO:
    """Text that goes to the target, which becomes the file with this number, as for a program of its own."""
    opened = target if isinstance(target, int) else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, number)
    return open(number, "w", encoding="utf-8", closefd=False)

"""A script that serves a page, in a process of its own that has imported already what a page needs.

Imports are most of the time in which a page starts. So one process makes them once, and pages are forked from it: it
has no threads, and is the fork server of Python's `multiprocessing`.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Forked:
    """A process, and its standard output."""

    process: ForkServerProcess
    output: TextIO

    def line(self) -> str:
        """What it writes next; empty if it has ended."""
        return self.output.readline().strip()

    def pause(self) -> None:
        """Let it do nothing until `go_on`: a page that is up takes a fiftieth of a core, asked or not."""
        self._tell(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on if it was paused."""
        self._tell(signal.SIGCONT)

    def end(self) -> None:
        """Let it clean up and end; on a busy machine some took half a minute, for which no test should wait."""
        self.go_on()  # one that is paused would not end
        for seconds in (0.5, 5):  # right after a pause the first signal may be lost, in another thread
            self.process.terminate()
            self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.output.close()

    def _tell(self, number: signal.Signals) -> None:
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)


def fork(script: Path, arguments: Sequence[str], log: Path) -> Forked:
    """`python SCRIPT ARGUMENTS`, with its standard error in the file `log`."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tests.app.preloaded"])
    reader, writer = multiprocessing.Pipe(duplex=False)
    process = forks.Process(target=_run, args=(script, arguments, dict(os.environ), writer, log), daemon=True)
    process.start()
    writer.close()
    return Forked(process, os.fdopen(os.dup(reader.fileno()), encoding="utf-8"))


def _run(script: Path, arguments: Sequence[str], environment: Mapping[str, str], output: Connection, log: Path) -> None:
    atexit._clear()  # those of the process that made the imports
    os.chdir(ROOT)
    os.environ.update(environment)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(output.fileno(), 1)
    output.close()
    sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", encoding="utf-8", buffering=1)
    sys.argv = [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()  # `multiprocessing` does not call them

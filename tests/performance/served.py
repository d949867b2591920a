"""The app in a process of its own, for the commands that try it out as a visitor would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def served(arguments: Sequence[str] = (), module: str = "app") -> Iterator[tuple[str, int]]:
    """`python -m MODULE ARGUMENTS` while the context lasts: its address and its process id.

    Raises:
        SystemExit: it did not start.
    """
    with subprocess.Popen([sys.executable, "-m", module, *arguments], text=True, stdout=subprocess.PIPE) as process:
        try:
            said = process.stdout.readline() if process.stdout else ""
            if "http" not in said:
                raise SystemExit("the app did not start")
            yield said.split()[-1], process.pid
        finally:
            process.terminate()


def browser() -> str:
    """The Chromium of this machine.

    Raises:
        SystemExit: there is none, and what to install.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit("no Chromium on this machine: install Debian's package chromium")
    return found


def end_without(parent: Connection) -> None:
    """End this process once the one that asked for it is gone, however that ended."""
    with suppress(EOFError, OSError):
        parent.recv()
    os._exit(0)

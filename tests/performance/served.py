"""A server of this project in a process of its own, for the commands that try it out as a client would."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def served(arguments: Sequence[str] = (), module: str = "app") -> Iterator[str]:
    """`python -m MODULE ARGUMENTS` while the context lasts: its address.

    Raises:
        SystemExit: it did not start.
    """
    with subprocess.Popen([sys.executable, "-m", module, *arguments], text=True, stdout=subprocess.PIPE) as process:
        try:
            said = process.stdout.readline() if process.stdout else ""
            if "http" not in said:
                raise SystemExit(f"python -m {module} did not start")
            yield said.split()[-1]
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

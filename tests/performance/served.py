"""A server of this project in a process of its own, for the commands that try it out as a client would."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
                raise SystemExit(f"python -m {module} did not start")
            yield said.split()[-1], process.pid
        finally:
            process.terminate()


def resident_megabytes(pid: int) -> float:
    """The resident memory of a process, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def browser() -> str:
    """The Chromium of this machine.

    Raises:
        SystemExit: there is none, and what to install.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit("no Chromium on this machine: install Debian's package chromium")
    return found

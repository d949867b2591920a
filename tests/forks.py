"""Processes forked from one that has imported already what they need: pages, and the processes of pytest-xdist.

Imports are most of the time in which these start. So one process, without threads, makes them once for all tests. The
fork server of `multiprocessing` cannot be shared by processes that pytest-xdist starts.

    python tests/forks.py serve FD      that process: forks for all who ask at this socket, until its input ends
    python tests/forks.py -u -c CODE    `python -u -c CODE` in a fork: what pytest-xdist starts (tests/ci_plugin.py)
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TextIO

ROOT = Path(__file__).parents[1]
VARIABLE = "MARS_TESTS_FORKS"
"""Of the environment: the path of the socket, once there is one."""
REAPED = 1.0
"""Seconds after which the process that forks looks for children that have ended."""
_SERVERS: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Forked:
    """A process, and its standard output. `alive` is at its end once the process has ended."""

    pid: int
    alive: int
    output: TextIO

    def line(self) -> str:
        """What it writes next; empty if it has ended."""
        return self.output.readline().strip()

    def end(self) -> None:
        """Let it clean up and end; on a busy machine some took half a minute, for which no test should wait."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _ended(self.alive, 0):
                os.kill(self.pid, number)
                _ended(self.alive, 5)
        os.close(self.alive)
        self.output.close()


def fork(script: Path, arguments: Sequence[str], log: Path) -> Forked:
    """`python SCRIPT ARGUMENTS` in the root of the project, with its standard error in the file `log`."""
    if VARIABLE not in os.environ:
        start()
    reader, writer = os.pipe()
    with Path(os.devnull).open() as empty, log.open("w") as file:
        pid, alive = _ask([str(script), *arguments], [empty.fileno(), writer, file.fileno()])
    os.close(writer)
    return Forked(pid, alive, os.fdopen(reader, encoding="utf-8"))


def start() -> None:
    """Start the process that forks, for this one and all that it starts; it ends with this one."""
    os.environ[VARIABLE] = str(Path(tempfile.mkdtemp(prefix="mars-forks-")) / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[VARIABLE])
        listener.listen()
        fd = listener.fileno()
        command = [sys.executable, __file__, "serve", str(fd)]
        _SERVERS.append(subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[fd], cwd=ROOT))


def _ask(words: Sequence[str], standard: Sequence[int]) -> tuple[int, int]:
    """A process that runs these words with these standard files: its number, and what is at its end once it ended."""
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(os.environ[VARIABLE])
        socket.send_fds(asked, [b"+"], [*standard, writer])
        asked.sendall(json.dumps({"words": words, "environment": dict(os.environ)}).encode())
        asked.shutdown(socket.SHUT_WR)
        pid = int(asked.makefile().read())
    os.close(writer)
    return pid, reader


def _ended(alive: int, seconds: float | None) -> bool:
    return bool(select.select([alive], [], [], seconds)[0])


def serve(listener: socket.socket) -> None:
    """Import, and fork for all who ask, until the process that started this one ends."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read at import (tests/conftest.py)
    sys.path[0] = str(ROOT)
    import tests.preloaded  # noqa: F401

    children: set[int] = set()
    while True:
        ready = select.select([listener, sys.stdin], [], [], REAPED)[0]
        children -= {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}
        if sys.stdin in ready:
            break
        if listener in ready:
            connection, _ = listener.accept()
            with connection:
                _, standard, _, _ = socket.recv_fds(connection, 1, 4)
                request = json.loads(connection.makefile().read())
                if (pid := os.fork()) == 0:
                    listener.close()
                    connection.close()
                    _run(request["words"], request["environment"], standard)
                    return
                children.add(pid)
                connection.sendall(str(pid).encode())
            for fd in standard:
                os.close(fd)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    shutil.rmtree(Path(os.environ[VARIABLE]).parent, ignore_errors=True)


def _run(words: list[str], environment: dict[str, str], standard: Sequence[int]) -> None:
    """What a new Python does with these words; the last of the files stays open until the process ends."""
    atexit._clear()  # those of the process that made the imports
    os.environ.clear()
    os.environ.update(environment)
    for number, fd in enumerate(standard[:3]):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout = (os.fdopen(fd, mode, encoding="utf-8") for fd, mode in ((0, "r"), (1, "w")))
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1)
    if words[0].startswith("-"):
        sys.argv, sys.modules["__main__"] = ["-c"], ModuleType("__main__")
        exec(words[-1], vars(sys.modules["__main__"]))
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def main(words: Sequence[str]) -> None:
    """Either of the two commands."""
    if words[0] == "serve":
        serve(socket.socket(fileno=int(words[1])))
    else:
        _ended(_ask(words, [0, 1, 2])[1], None)


if __name__ == "__main__":
    main(sys.argv[1:])

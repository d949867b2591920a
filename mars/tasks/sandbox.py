"""Runs generated Python to see whether it is right, without trusting it.

First a whitelist of syntax (`mars.tasks.syntax`), then a process of its own with limits on CPU, memory, files and
processes (`mars.tasks.sandbox_child`), a wall clock, and an answer that counts only with this job's nonce.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from mars.tasks import sandbox_child
from mars.tasks.sandbox_child import MAX_ANSWER_BYTES, SEPARATOR, canonical
from mars.tasks.syntax import is_allowed

WALL_SECONDS = 1.5

Case = tuple[tuple[object, ...], object]


def run_checks(source: str, function: str, cases: Sequence[Case]) -> bool:
    """Whether `source` defines `function` and it returns the expected value in every case.

    A case is (arguments, expected), both plain values (None, bool, int, float, str, list, tuple, dict, set). Expected
    and returned must agree in type throughout: True is not 1, (1,) is not [1]. Whatever the program does otherwise
    (errors, forbidden syntax, a limit) is False, within about `WALL_SECONDS`.

    Raises:
        TypeError: an input is of the wrong kind.
        ValueError: `function` is no name or there are no cases.
        OSError: this system does not let the subprocess be limited, so nothing was run.
    """
    if not isinstance(source, str):
        raise TypeError(f"source must be a string, got {type(source).__name__}")
    if not isinstance(function, str) or not function.isidentifier():
        raise ValueError(f"function must be a Python name, got {function!r}")
    if not cases:
        raise ValueError("cases must hold at least one case, got none")
    for arguments, _ in cases:
        if not isinstance(arguments, tuple):
            raise TypeError(f"arguments of a case must be a tuple, got {type(arguments).__name__}")
        canonical(arguments)
    expected = [canonical(value) for _, value in cases]
    return is_allowed(source, function) and run_isolated(source, function, [case[0] for case in cases]) == expected


def run_isolated(source: str, function: str, arguments: Sequence[tuple[object, ...]]) -> list[str] | None:
    """Canonical results of `function` in the limited subprocess, or None if it gave no answer.

    This stage does not look at the syntax: its limits must hold by themselves.

    Raises:
        OSError: this system does not let the subprocess be limited.
    """
    nonce = secrets.token_hex(16)
    payload = marshal.dumps((nonce, source, function, list(arguments)))
    head, *rest = _answer(payload).decode("utf-8", "replace").split(SEPARATOR)
    if head != nonce or not rest:
        return None
    if rest[0] == "unlimited":
        raise OSError(f"generated code was not run because its process cannot be limited here: {rest[1]}")
    return rest[1:]


def _answer(payload: bytes) -> bytes:
    """What the subprocess writes before it ends, its time is up, or it has written too much."""
    with tempfile.TemporaryDirectory(prefix="mars-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(Path(sandbox_child.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        with process:
            try:
                if process.stdin is None or process.stdout is None:
                    raise OSError("the subprocess has no pipes")
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(payload)
                    process.stdin.flush()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                return _read(process.stdout, time.monotonic() + WALL_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


def _read(pipe: IO[bytes], deadline: float) -> bytes:
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) <= MAX_ANSWER_BYTES and selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(pipe.fileno(), MAX_ANSWER_BYTES)
            if not chunk:
                return data
            data += chunk
    return b""

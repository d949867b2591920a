"""Runs generated Python to see whether it is right, without trusting it.

First a whitelist of syntax: everything that is not on it is refused before anything runs. Then a process of its own
with limits on CPU, memory, files and processes (`mars_tasks.sandbox_child`), a wall clock, and an answer that counts
only with this job's nonce.
"""

from __future__ import annotations

import ast
import contextlib
import marshal
import os
import re
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

from mars_tasks import sandbox_child
from mars_tasks.sandbox_child import MAX_ANSWER_BYTES, SEPARATOR, canonical

WALL_SECONDS = 20.0
"""Only a program that waits takes so long. On a busy machine the interpreter alone takes seconds to start, and a right
program must not be wrong there: one that computes ends at its limit on CPU time.
"""
MAX_SOURCE_CHARACTERS = 4_000

NODES: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Pass, ast.Expr, ast.Name, ast.Constant),
        *(ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Break, ast.Continue, ast.Load, ast.Store),
        *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.IfExp),
        *(ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        *(ast.comprehension, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.Invert),
        *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
        *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
        *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot),
    }
)
"""Left out on purpose: while, import, try, with, class, lambda, yield, async, global, nonlocal, del, f-strings."""

METHODS = frozenset(
    "append add capitalize clear copy count discard endswith extend find get index insert isalnum isalpha isdigit "
    "islower isspace isupper items join keys lower lstrip pop remove replace reverse rfind rsplit rstrip setdefault "
    "sort split splitlines startswith strip swapcase title update upper values zfill".split()
)
"""Methods of str, list, dict and set that may be called; `format` reads attributes and is left out."""

_CONSTANTS = (str, int, float, bool, type(None))
# The parser warns about these; refused, so that a verdict does not depend on how warnings are treated.
_WARNED = re.compile(r"""\\[^nt\\'"\n]|\b\d+(?:and|else|for|if|in|is|or|not)\b""")

Case = tuple[tuple[object, ...], object]


def run_checks(source: str, function: str, cases: Sequence[Case]) -> bool:
    """Whether `source` defines `function` and it returns the expected value in every case.

    A case is (arguments, expected), both plain values (None, bool, int, float, str, list, tuple, dict, set). Expected
    and returned must agree in type throughout: True is not 1, (1,) is not [1]. Whatever the program does otherwise
    (errors, forbidden syntax, a limit) is False.

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
    """The output of the subprocess until it ends, its time is up, or it has written too much."""
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


def is_allowed(source: str, function: str) -> bool:
    """Whether `source` keeps to the lists above and defines `function` at its top level."""
    if len(source) > MAX_SOURCE_CHARACTERS or _WARNED.search(source):
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    defined = any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)
    return defined and all(_node_allowed(node) for node in ast.walk(tree))


def _node_allowed(node: ast.AST) -> bool:
    if type(node) not in NODES:
        return False
    match node:
        case ast.Attribute():
            return node.attr in METHODS and isinstance(node.ctx, ast.Load)
        case ast.Call():
            return isinstance(node.func, ast.Name | ast.Attribute)
        case ast.Constant():
            return isinstance(node.value, _CONSTANTS)
        case ast.FunctionDef():
            return "__" not in node.name and not node.decorator_list
        case ast.Name():
            return "__" not in node.id
        case ast.arg() | ast.keyword():
            return "__" not in (node.arg or "")
        case ast.comprehension():
            return not node.is_async
    return True

"""The far side of the sandbox: limits itself, runs one program on its cases, answers once.

Started by path in an isolated interpreter (`python -I -S`), so it imports nothing of this package. Stdin holds a
marshalled (nonce, source, function, arguments of each case). Stdout gets the nonce and the canonical text of each
result, one a line; anything else is no answer. The expected values never come here: the other side compares.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import resource
import sys

MAX_ANSWER_BYTES = 65_536
SEPARATOR = "\x00"

CPU_SECONDS = 1
MEMORY_BYTES = 256 * 2**20
LIMITS = {
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_AS: MEMORY_BYTES,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_NOFILE: 3,  # stdin, stdout and stderr: nothing can be opened any more
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NPROC: 0,
}
NOBODY = 65_534

BUILTINS = (
    "abs all any bool chr dict divmod enumerate filter float frozenset int isinstance len list map max min ord range "
    "reversed round set sorted str sum tuple zip".split()
)


def canonical(value: object) -> str:
    """Text that is equal exactly when two plain values have the same types throughout and are equal.

    Raises:
        TypeError: the value is not made of None, bool, int, float, str, list, tuple, dict, set and frozenset.
    """
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return repr(value + 0.0)  # -0.0 equals 0.0
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({','.join(canonical(item) for item in value)})"  # type: ignore[attr-defined]
    if type(value) in (set, frozenset):
        return f"{type(value).__name__}({','.join(sorted(canonical(item) for item in value))})"  # type: ignore[attr-defined]
    if type(value) is dict:
        return f"dict({','.join(sorted(f'{canonical(key)}:{canonical(item)}' for key, item in value.items()))})"
    raise TypeError(f"values must be plain (None, bool, int, float, str, list, tuple, dict, set), got {type(value)}")


def lock_down() -> None:
    """Take away processes, memory, time and files. As root, give that up first: root is exempt from NPROC."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a user namespace without that user; its root is not exempt
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, value))


def results(source: str, function: str, arguments: list[tuple[object, ...]]) -> list[str]:
    """Canonical text of what `function` returns for each tuple of arguments."""
    names = vars(sys.modules["builtins"])
    scope: dict[str, object] = {"__builtins__": {name: names[name] for name in BUILTINS}, "__name__": "program"}
    exec(compile(source, "program", "exec"), scope)  # noqa: S102
    call = scope[function]
    return [canonical(call(*items)) for items in arguments]  # type: ignore[operator]


def main() -> None:
    """Read one job from stdin, answer on stdout, and leave without any clean-up a program could hook into."""
    nonce, source, function, arguments = marshal.loads(sys.stdin.buffer.read())  # noqa: S302
    try:
        lock_down()
    except (OSError, ValueError) as error:
        os.write(1, SEPARATOR.join([nonce, "unlimited", str(error)]).encode())
        os._exit(2)
    try:
        answer = SEPARATOR.join([nonce, "done", *results(source, function, arguments)]).encode("utf-8", "replace")
        if len(answer) <= MAX_ANSWER_BYTES:
            os.write(1, answer)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()

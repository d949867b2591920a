"""The sandbox: right programs pass, wrong and hostile ones are False in time, limits hold without the whitelist."""

import time
from pathlib import Path

import pytest

from mars_tasks import sandbox
from mars_tasks.sandbox import MAX_SOURCE_CHARACTERS, is_allowed, run_checks, run_isolated
from mars_tasks.sandbox_child import canonical

LIMIT_SECONDS = 40.0
"""The sandbox limits CPU time, which takes longer by the clock on a busy machine."""
ONE = [((1,), 1)]


def test_right_program_passes() -> None:
    source = '''def total(numbers):
    """Sum of the even numbers."""
    result = 0
    for number in numbers:
        if number % 2 == 0:
            result += number
    return result
'''
    assert run_checks(source, "total", [(([1, 2, 4],), 6), (([],), 0)])
    assert not run_checks(source, "total", [(([1, 2, 4],), 6), (([],), 1)])


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("return [x * 2 for x in a if x > 1]", ([1, 2, 3],), [4, 6]),
        ("return a.upper()[::-1]", ("abc",), "CBA"),
        ("return {k: len(k) for k in a.split()}", ("a bb",), {"bb": 2, "a": 1}),
        ("return ', '.join(sorted(set(a)))", ("banana",), "a, b, n"),
        ("return sum(n for n in range(a)) if a else None", (4,), 6),
        ("return sum(n for n in range(a)) if a else None", (0,), None),
        ("b = {}\n    for c in a:\n        b[c] = b.get(c, 0) + 1\n    return b", ("aab",), {"a": 2, "b": 1}),
        ("first, *rest = a\n    return (first, rest)", ((1, 2, 3),), (1, [2, 3])),
        ("return -0.0 * a", (1,), 0.0),
        ("return a + chr(55296)", ("é\n",), "é\n\ud800"),
    ],
)
def test_everyday_python_is_allowed(body: str, arguments: tuple[object, ...], expected: object) -> None:
    assert run_checks(f"def f(a):\n    {body}\n", "f", [(arguments, expected)])


@pytest.mark.parametrize(
    ("body", "expected"),
    [("1", True), ("True", 1), ("1", 1.0), ("(1, 2)", [1, 2]), ("[True]", [1]), ("{1: True}", {1: 1}), ("'1'", 1)],
)
def test_types_must_agree(body: str, expected: object) -> None:
    assert not run_checks(f"def f():\n    return {body}\n", "f", [((), expected)])


@pytest.mark.parametrize(
    "source",
    [
        "",
        "f = abs",
        "def g(a):\n    return 1",
        "def f(a):\n    return",
        "def f(a):\n    return a[0]",
        "def f(a:\n    return 1",
        "def f():\n    return 1",
        "def f(a):\n    return f",
        "def f(a):\n    b = []\n    b.append(b)\n    return b",
        "def f(a):\n    return " + "1" * 3_900,
        "x = 1 / 0\ndef f(a):\n    return 1",
    ],
)
def test_wrong_program_is_false(source: str) -> None:
    assert run_checks(source, "f", ONE) is False


REFUSED = {
    "import": "import os\ndef f(a):\n    return 1",
    "from import": "def f(a):\n    from os import fork\n    return 1",
    "while": "def f(a):\n    while True:\n        a += 1",
    "subclasses": "def f(a):\n    return len(().__class__.__base__.__subclasses__())",
    "frame": "def f(a):\n    return (x for x in [1]).gi_frame",
    "format": "def f(a):\n    return '{0.__class__}'.format(a)",
    "f-string": "def f(a):\n    return f'{a}'",
    "dunder name": "def f(a):\n    return __import__('os').fork()",
    "dunder argument": "def f(a, __b=1):\n    return 1",
    "dunder function": "def __g():\n    return 1\ndef f(a):\n    return 1",
    "lambda": "def f(a):\n    return (lambda g: g(g))(lambda g: g(g))",
    "class": "class A:\n    pass\ndef f(a):\n    return 1",
    "try": "def f(a):\n    try:\n        return 1\n    finally:\n        return 1",
    "yield": "def f(a):\n    yield 1",
    "async": "async def f(a):\n    return 1",
    "async comprehension": "def f(a):\n    return [x async for x in a]",
    "global": "def f(a):\n    global b\n    return 1",
    "with": "def f(a):\n    with a:\n        return 1",
    "decorator": "@abs\ndef f(a):\n    return 1",
    "walrus": "def f(a):\n    return (b := 1)",
    "assert": "def f(a):\n    assert a\n    return 1",
    "del": "def f(a):\n    del a\n    return 1",
    "attribute": "def f(a):\n    a.append = 1\n    return 1",
    "bytes": "def f(a):\n    return b'1'",
    "called result": "def f(a):\n    return f(a)(a)",
    "null byte": "def f(a):\n    return 1\0",
    "lone surrogate": "def f(a):\n    '\ud800'\n    return 1",
    "too long": "def f(a):\n    return 1\n" + "#" * MAX_SOURCE_CHARACTERS,
    "escape": "def f(a):\n    return '\\d'",
    "number and word": "def f(a):\n    return 1if a else 2",
    "nested minus": "def f(a):\n    return " + "-" * 3_900 + "2",
    "nested not": "def f(a):\n    return " + "not " * 950 + "1",
    "nested brackets": "def f(a):\n    return " + "(" * 1_900 + "1" + ")" * 1_900,
    "nested lists": "def f(a):\n    return " + "[" * 1_900 + "1" + "]" * 1_900,
    "nested calls": "def f(a):\n    return " + "f(" * 1_200 + "1" + ")" * 1_200,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_program_is_false(name: str) -> None:
    """By the whitelist, all but two."""
    started = time.monotonic()
    assert run_checks(REFUSED[name], "f", ONE) is False
    assert time.monotonic() - started < LIMIT_SECONDS
    assert name in ("nested minus", "nested not") or not is_allowed(REFUSED[name], "f")


HOSTILE = {
    "endless loop": "def f(a):\n    for i in range(10 ** 18):\n        a += i\n    return 1",
    "growing list": "def f(a):\n    b = [1]\n    for x in b:\n        b.append(x)\n    return 1",
    "recursion": "def f(a):\n    return f(a)",
    "memory bomb": "def f(a):\n    return len([0] * 10 ** 10)",
    "string bomb": "def f(a):\n    b = 'x'\n    for i in range(60):\n        b = b + b\n    return 1",
    "padded string": "def f(a):\n    return len('%2000000000d' % a)",
    "constant power": "X = 2 ** (2 ** 40)\ndef f(a):\n    return 1",
    "huge shift": "def f(a):\n    return (1 << 10 ** 12) & 1",
    "huge output": "def f(a):\n    return 'x' * 10 ** 7",
    "deep output": "def f(a):\n    b = []\n    for i in range(10 ** 5):\n        b = [b]\n    return b",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_program_is_false_in_time(source: str) -> None:
    assert is_allowed(source, "f")
    started = time.monotonic()
    assert run_checks(source, "f", ONE) is False
    assert time.monotonic() - started < LIMIT_SECONDS


# Reaches the os module as a program could that got past the whitelist; bare `except` is what a limit would raise.
ESCAPE = """
def reach():
    for cls in ().__class__.__base__.__subclasses__():
        if cls.__name__ == "_wrap_close":
            return cls.__init__.__globals__
def f(a):
    os = reach()
    {body}
"""


def escape(body: str) -> list[str] | None:
    source = ESCAPE.format(body=body.replace("\n", "\n    "))
    assert not is_allowed(source, "f")
    started = time.monotonic()
    answer = run_isolated(source, "f", [(1,)])
    assert time.monotonic() - started < LIMIT_SECONDS
    return answer


def attempt(call: str) -> list[str] | None:
    return escape(f"try:\n    {call}\nexcept:\n    return 'blocked'\nreturn 'did it'")


@pytest.mark.parametrize(
    "call",
    [
        "os['fork']()",
        "os['system']('true') == 0 or 1 / 0",
        "os['open']('file', os['O_CREAT'] | os['O_WRONLY'])",
        "os['open']('/etc/passwd', os['O_RDONLY'])",
        "os['dup'](0)",
        "os['pipe']()",
        "os['setuid'](0)",
        "bomb = [0] * (40 * 2 ** 20)",
        "os['sys'].modules['resource'].setrlimit(os['sys'].modules['resource'].RLIMIT_NPROC, (9, 9))",
    ],
)
def test_limits_hold_without_the_whitelist(call: str) -> None:
    assert attempt(call) == ["'blocked'"]


def test_the_surroundings_are_empty() -> None:
    assert escape("return os['getpid']() > 1") == ["True"], "the escape used here works"
    assert escape("return os['write'](2, b'x') + 0") == ["1"], "stderr is the null device"
    assert escape("return len(os['environ']) <= 1") == ["True"]  # LC_CTYPE is set by the interpreter itself
    assert attempt("os['listdir']('.')") == ["'blocked'"]


@pytest.mark.parametrize(
    "body",
    [
        "os['write'](1, b'x' * 10 ** 6)\nreturn 1",
        "for i in range(10 ** 9):\n    os['write'](1, b'x' * 60000)\nreturn 1",
        "os['write'](1, b'0' * 32 + b'\\0done\\0' + b'1')\nos['_exit'](0)",
        "os['close'](1)\nfor i in range(10 ** 12):\n    a += 1",
        "os['sys'].modules['signal']",
        "os['_exit'](0)",
    ],
    ids=["output", "endless output", "forged answer", "closed and busy", "missing module", "exit"],
)
def test_bad_behaviour_without_the_whitelist_gives_no_answer(body: str) -> None:
    assert escape(body) is None


def test_a_stopped_program_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.5)
    assert escape("os['kill'](os['getpid'](), 19)") is None


def test_a_slow_start_makes_nothing_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "child.py"
    slow.write_text(
        Path(sandbox.sandbox_child.__file__).read_text().replace("import os\n", "import os, time\ntime.sleep(1.6)\n")
    )
    monkeypatch.setattr(sandbox.sandbox_child, "__file__", str(slow))
    assert "time.sleep" in slow.read_text()
    assert run_checks("def f(a):\n    return 1\n", "f", ONE)


def test_a_system_without_limits_runs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = Path(sandbox.sandbox_child.__file__).read_text()
    broken = tmp_path / "child.py"
    broken.write_text(child.replace("resource.RLIMIT_CORE:", "9999:"))
    monkeypatch.setattr(sandbox.sandbox_child, "__file__", str(broken))
    with pytest.raises(OSError, match="cannot be limited"):
        run_checks("def f(a):\n    return 1\n", "f", ONE)


@pytest.mark.parametrize(
    ("source", "function", "cases", "error"),
    [
        (None, "f", ONE, TypeError),
        (b"def f(a): return 1", "f", ONE, TypeError),
        ("def f(a): return 1", "f()", ONE, ValueError),
        ("def f(a): return 1", None, ONE, ValueError),
        ("def f(a): return 1", "f", [], ValueError),
        ("def f(a): return 1", "f", [([1], 1)], TypeError),
        ("def f(a): return 1", "f", [((object(),), 1)], TypeError),
        ("def f(a): return 1", "f", [((1,), b"1")], TypeError),
    ],
)
def test_bad_input_raises(source: object, function: object, cases: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        run_checks(source, function, cases)  # type: ignore[arg-type]


def test_canonical_text_ignores_order_in_sets() -> None:
    assert canonical({"a": {1, 2}, "b": 0.0}) == canonical({"b": -0.0, "a": {2, 1}})
    assert canonical([1]) != canonical((1,)) != canonical({1})

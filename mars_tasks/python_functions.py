"""Docstring to Python function, judged by running it, in the place of HumanEval.

A problem's `answer` is a JSON object: the function's name and cases of [arguments, result].
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from mars_tasks.base import Draft, Task, vary
from mars_tasks.sandbox import run_checks

_FENCE = re.compile(r"```(?:python)?\n(.*?)(?:```|\Z)", re.DOTALL)
_VARIABLES = ("x", "n", "value", "number")
_LISTS = ("items", "numbers", "values", "data")
_TEXTS = ("text", "word", "name", "line")
_ELEMENTS = "[item|element|one|entry]"
_BRACKETS = str.maketrans("⟦⟧", "[]")
_RESULTS = "[result|found|output|answer]"


def extract_code(text: str) -> str:
    """The first fenced block, or the text from its first `def` on."""
    fenced = _FENCE.search(text)
    if fenced:
        return fenced[1]
    start = text.find("def ")
    return text[start:] if start >= 0 else text


def check_text(answer: str, text: str) -> bool:
    """Whether the function in `text` gives the expected result in all cases, run in the sandbox."""
    wanted = json.loads(answer)
    cases = [(tuple(arguments), result) for arguments, result in wanted["cases"]]
    return run_checks(extract_code(text), wanted["function"], cases)


def _draft(
    rng: Random,
    name: str,
    argument: str,
    parameters: tuple[object, ...],
    docstring: str,
    body: str,
    inputs: list[Any],
    function: Callable[[Any], Any],
) -> Draft:
    """One-argument function. `body` may use `[a|b]` choices, ⟦ ⟧ for literal brackets; @r and @e are local names."""
    local = body.replace("@r", vary(rng, _RESULTS)).replace("@e", vary(rng, _ELEMENTS))
    lines = vary(rng, local).translate(_BRACKETS).splitlines()
    comment = vary(rng, "[||    # [Work it out|Compute it|Do the work|Go] [here|now|as asked]\n]")
    code = f"def {name}({argument}):\n{comment}" + "\n".join("    " + line for line in lines)
    request = vary(rng, "[Write|Complete|Finish] [this function|the function].")
    prompt = f'{request}\ndef {name}({argument}):\n    """{vary(rng, docstring)}"""'
    cases = [[[value], function(value)] for value in inputs]
    return Draft((name, argument, *parameters), prompt, code, json.dumps({"function": name, "cases": cases}))


def _value(expression: str) -> str:
    """Return an expression directly or through a local."""
    return f"[return {expression}|@r = {expression}\nreturn @r]"


def _numbers(rng: Random) -> list[int]:
    return [rng.randint(-20, 40) for _ in range(3)] + [0]


def _lists(rng: Random, limit: int = 0) -> list[list[int]]:
    rows = [[rng.randint(limit - 9, limit + 9) for _ in range(rng.randint(2, 6))] for _ in range(3)]
    return [*rows, [limit, limit + 1, limit - 1], []]


def _strings(rng: Random) -> list[str]:
    return ["".join(rng.choice("abcdeo") for _ in range(rng.randint(3, 8))) for _ in range(3)] + ["a", "abc"]


def add(rng: Random) -> Draft:
    k, x, plus = rng.randint(2, 60), rng.choice(_VARIABLES), rng.random() < 0.5
    sign, word = ("+", "plus") if plus else ("-", "minus")
    return _draft(
        rng, f"{'add' if plus else 'subtract'}_{k}", x, (), f"[Return|Give] {x} {word} {k}.",
        _value(f"{x} {sign} {k}"), _numbers(rng), lambda v: v + k if plus else v - k,
    )  # fmt: skip


def scale(rng: Random) -> Draft:
    k, b, x = rng.randint(2, 9), rng.randint(1, 20), rng.choice(_VARIABLES)
    return _draft(
        rng, rng.choice(("scale", "line", "convert")), x, (k, b), f"[Return|Give] {k} times {x} plus {b}.",
        _value(f"{k} * {x} + {b}"), _numbers(rng), lambda v: k * v + b,
    )  # fmt: skip


def keep(rng: Random) -> Draft:
    k, xs, above = rng.randint(0, 30), rng.choice(_LISTS), rng.random() < 0.5
    sign, word = (">", "greater") if above else ("<", "less")
    test = f"@e {sign} {k}"
    return _draft(
        rng, rng.choice(("keep", "select", "choose")), xs, (k, above),
        f"[Return|Give] the {xs} that are {word} than {k}.",
        f"[return ⟦@e for @e in {xs} if {test}⟧|"
        f"@r = ⟦⟧\nfor @e in {xs}:\n    if {test}:\n        @r.append(@e)\nreturn @r]",
        _lists(rng, k), lambda v: [e for e in v if (e > k if above else e < k)],
    )  # fmt: skip


def count(rng: Random) -> Draft:
    k, xs, above = rng.randint(0, 30), rng.choice(_LISTS), rng.random() < 0.5
    sign, word = (">", "above") if above else ("<", "below")
    return _draft(
        rng, rng.choice(("count", "how_many", "tally")), xs, (k, above),
        f"[Count|Return how many of] the {xs} {word} {k}.",
        f"@r = 0\nfor @e in {xs}:\n    if @e {sign} {k}:\n        @r += 1\nreturn @r",
        _lists(rng, k), lambda v: sum(1 for e in v if (e > k if above else e < k)),
    )  # fmt: skip


def total(rng: Random) -> Draft:
    k, xs = rng.randint(1, 30), rng.choice(_LISTS)
    return _draft(
        rng, rng.choice(("total", "add_up", "sum_all")), xs, (k,), f"[Return|Give] the sum of the {xs} plus {k}.",
        f"[return sum({xs}) + {k}|@r = {k}\nfor @e in {xs}:\n    @r += @e\nreturn @r]",
        _lists(rng), lambda v: sum(v) + k,
    )  # fmt: skip


def repeat_text(rng: Random) -> Draft:
    k, s = rng.randint(2, 30), rng.choice(_TEXTS)
    return _draft(
        rng, rng.choice(("repeat", "copy", "echo")), s, (k,), f"[Return|Give] the {s} repeated {k} times.",
        _value(f"{s} * {k}"), _strings(rng), lambda v: v * k,
    )  # fmt: skip


def slicing(rng: Random) -> Draft:
    k, s, first = rng.randint(1, 9), rng.choice(_TEXTS + _LISTS), rng.random() < 0.5
    body = f"{s}⟦:{k}⟧" if first else f"{s}⟦-{k}:⟧"
    return _draft(
        rng, f"{'first' if first else 'last'}_{k}", s, (),
        f"[Return|Give] the {'first' if first else 'last'} {k} of {s}.", _value(body),
        _strings(rng) if s in _TEXTS else _lists(rng), lambda v: v[:k] if first else v[-k:],
    )  # fmt: skip


def larger(rng: Random) -> Draft:
    k, x, more = rng.randint(1, 60), rng.choice(_VARIABLES), rng.random() < 0.5
    word, sign = ("larger", "max") if more else ("smaller", "min")
    compare = ">" if more else "<"
    return _draft(
        rng, rng.choice(("limit", "bound", "pick")), x, (k, more), f"[Return|Give] the {word} of {x} and {k}.",
        f"[return {sign}({x}, {k})|if {x} {compare} {k}:\n    return {x}\nreturn {k}]",
        [*_numbers(rng), k, k + 1], lambda v: max(v, k) if more else min(v, k),
    )  # fmt: skip


def divisible(rng: Random) -> Draft:
    k, x = rng.randint(2, 30), rng.choice(_VARIABLES)
    return _draft(
        rng, f"is_multiple_of_{k}", x, (), f"[Check|Return] whether {x} is a multiple of {k}.",
        _value(f"{x} % {k} == 0"), [*_numbers(rng), k, 2 * k], lambda v: v % k == 0,
    )  # fmt: skip


def affix(rng: Random) -> Draft:
    word, s = rng.choice(("hello", "dear", "good", "my", "the", "new", "old", "big")), rng.choice(_TEXTS)
    front = rng.random() < 0.5
    body = f'"{word}" + {s}' if front else f'{s} + "{word}"'
    return _draft(
        rng, rng.choice(("label", "tag", "mark")), s, (word, front),
        f"[Put|Add] {word} {'before' if front else 'after'} the {s}.", _value(body),
        _strings(rng), lambda v: word + v if front else v + word,
    )  # fmt: skip


def letters(rng: Random) -> Draft:
    letter, s = rng.choice("abcdefghijklmnopqrstuvwxyz"), rng.choice(_TEXTS)
    return _draft(
        rng, f"count_{letter}", s, (), f"[Count|Return] how often {letter} is in the {s}.",
        f'[return {s}.count("{letter}")|@r = 0\nfor @e in {s}:\n    if @e == "{letter}":\n        @r += 1\nreturn @r]',
        [*_strings(rng), letter * 3], lambda v: v.count(letter),
    )  # fmt: skip


def change_all(rng: Random) -> Draft:
    k, xs, sign = rng.randint(2, 30), rng.choice(_LISTS), rng.choice("+*-")
    word = {"+": "plus", "*": "times", "-": "minus"}[sign]
    return _draft(
        rng, rng.choice(("apply", "change_all", "update")), xs, (k, sign), f"[Return|Give] all {xs} {word} {k}.",
        f"[return ⟦@e {sign} {k} for @e in {xs}⟧|@r = ⟦⟧\nfor @e in {xs}:\n    @r.append(@e {sign} {k})\nreturn @r]",
        _lists(rng), lambda v: [e + k if sign == "+" else e * k if sign == "*" else e - k for e in v],
    )  # fmt: skip


TASK = Task(
    "python_functions",
    (add, scale, keep, count, total, repeat_text, slicing, larger, divisible, affix, letters, change_all),
    check_text,
)

"""Word problems in 2-4 steps with a worked solution and `#### answer`, in the place of GSM8K."""

from __future__ import annotations

import operator
import re
from random import Random

from mars_tasks.base import CITIES, ITEMS, PEOPLE, TIMES, Draft, Task, last_match, vary

Step = tuple[str, int, str, int]
"""A computation in words: a number, the sign, another number."""

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
_ANSWER = re.compile(r"####\s*(-?\d+)(?![.,]?\d)")


def check_text(answer: str, text: str) -> bool:
    """The number after the last `####` is the answer."""
    return last_match(_ANSWER, text) == answer


def _step(rng: Random, what: str, equation: str, value: int) -> str:
    """One worked step in one of several equally likely wordings."""
    return vary(
        rng,
        f"[[So|Then|Now|Here] {what} [is|makes|comes to] {equation}."
        f"|[We|You] [get|find|see] {equation} [for|as] {what}."
        f"|[Next|Again], {what}: {equation}."
        f"|[Since|As] {equation}, {what} is {value}.]",
    )


def _draft(rng: Random, parameters: tuple[object, ...], prompt: str, steps: list[Step]) -> Draft:
    """The last step has the answer."""
    text = vary(rng, "[|Let us [see|think|work it out]. |[We|I] go [step by step|one by one]. |[Okay|Right|Well]. ]")
    worked = [(what, f"{a} {sign} {b}", _OPERATORS[sign](a, b)) for what, a, sign, b in steps]
    text += " ".join(_step(rng, what, f"{expression} = {value}", value) for what, expression, value in worked)
    answer = str(worked[-1][2])
    return Draft(parameters, vary(rng, prompt), f"{text}\n#### {answer}", answer)


def sheep(rng: Random) -> Draft:
    """The family of the paper's Figure 1."""
    a, b, c = rng.sample(CITIES, 3)
    first, second, count = rng.choice(list(TIMES)), rng.choice(list(TIMES)), rng.randint(2, 9)
    b_count = second * count
    a_count = first * b_count
    return _draft(
        rng,
        (a, b, c, first, second, count),
        f"{a} has {TIMES[first]} as many sheep as {b}. {b} has {TIMES[second]} as many sheep as {c}. "
        f"How many sheep do {a}, {b}, and {c} have [together|in all] if {c} has {count} sheep?",
        [
            (b, second, "*", count),
            (a, first, "*", b_count),
            ("the two of them", a_count, "+", b_count),
            ("the total", a_count + b_count, "+", count),
        ],
    )


def shopping(rng: Random) -> Draft:
    (who,), (x, y) = rng.sample(PEOPLE, 1), rng.sample(ITEMS, 2)
    a, p, b, q = (rng.randint(2, 9) for _ in range(4))
    return _draft(
        rng,
        (who, x, y, a, p, b, q),
        f"{who} [buys|picks|orders] {a} {x} at {p} dollars each and {b} {y} at {q} dollars each. "
        f"How much does {who} [pay|spend] [in total|altogether]?",
        [
            (f"the cost of {x}", a, "*", p),
            (f"the cost of {y}", b, "*", q),
            ("the total", a * p, "+", b * q),
        ],
    )


def bus(rng: Random) -> Draft:
    (where,) = rng.sample(CITIES, 1)
    start = rng.randint(20, 60)
    off, on, last = rng.randint(3, 15), rng.randint(3, 20), rng.randint(2, 12)
    return _draft(
        rng,
        (where, start, off, on, last),
        f"A bus [leaves|starts from] {where} with {start} people. At the first stop {off} get off and {on} get on. "
        f"At the [next|second] stop {last} get off. How many people are [left|on the bus] now?",
        [
            ("the number after some leave", start, "-", off),
            ("the number after some board", start - off, "+", on),
            ("the number left", start - off + on, "-", last),
        ],
    )


def savings(rng: Random) -> Draft:
    (who,), (x,) = rng.sample(PEOPLE, 1), rng.sample(ITEMS, 1)
    weekly, weeks = rng.randint(3, 12), rng.randint(3, 9)
    spent = rng.randint(2, weekly * weeks - 1)
    return _draft(
        rng,
        (who, x, weekly, weeks, spent),
        f"{who} [saves|puts away] {weekly} dollars [every|each] week for {weeks} weeks and then spends {spent} dollars "
        f"on {x}. How many dollars [are left|does {who} still have]?",
        [
            ("the money saved", weeks, "*", weekly),
            ("the money left", weekly * weeks, "-", spent),
        ],
    )


def sharing(rng: Random) -> Draft:
    (who,), (x,) = rng.sample(PEOPLE, 1), rng.sample(ITEMS, 1)
    friends, each = rng.randint(2, 6), rng.randint(2, 9)
    total = friends * each
    kept = rng.randint(1, 9)
    first = rng.randint(1, total + kept - 1)
    return _draft(
        rng,
        (who, x, friends, each, kept, first),
        f"{who} has {first} {x} and [gets|finds] {total + kept - first} more. {who} keeps {kept} and shares the rest "
        f"[equally|fairly] among {friends} friends. How many {x} does each friend get?",
        [
            (f"the number of {x}", first, "+", total + kept - first),
            ("the number to share", total + kept, "-", kept),
            ("the share of each", total, "/", friends),
        ],
    )


def baking(rng: Random) -> Draft:
    (who,) = rng.sample(PEOPLE, 1)
    cups, cakes = rng.randint(2, 6), rng.randint(3, 9)
    have = rng.randint(1, cups * cakes - 1)
    thing = rng.choice(("cake", "pie", "loaf", "tart"))
    return _draft(
        rng,
        (who, cups, cakes, have, thing),
        f"Each {thing} needs {cups} cups of flour. {who} [wants|plans] to bake {cakes} of them and has {have} cups. "
        f"How many [more cups|cups more] does {who} need?",
        [
            ("the flour needed", cakes, "*", cups),
            ("the flour missing", cups * cakes, "-", have),
        ],
    )


def reading(rng: Random) -> Draft:
    (who,) = rng.sample(PEOPLE, 1)
    daily, days = rng.randint(4, 12), rng.randint(2, 7)
    pages = rng.randint(daily * days + 1, 99)
    return _draft(
        rng,
        (who, daily, days, pages),
        f"{who}'s book has {pages} pages. {who} reads {daily} pages [a|each|every] day for {days} days. "
        f"How many pages are [left|still unread]?",
        [
            ("the part read", days, "*", daily),
            ("the part left", pages, "-", daily * days),
        ],
    )


def ages(rng: Random) -> Draft:
    a, b, c = rng.sample(PEOPLE, 3)
    first, second, age = rng.randint(2, 9), rng.randint(2, 9), rng.randint(3, 20)
    middle = age + second
    return _draft(
        rng,
        (a, b, c, first, second, age),
        f"{a} is {first} years older than {b}. {b} is {second} years older than {c}. {c} is {age}. "
        f"How old are {a} and {b} [together|in total]?",
        [
            (f"the age of {b}", age, "+", second),
            (f"the age of {a}", middle, "+", first),
            ("the sum", middle + first, "+", middle),
        ],
    )


def collecting(rng: Random) -> Draft:
    (a, b), (x,) = rng.sample(PEOPLE, 2), rng.sample(ITEMS, 1)
    count, times, given, more = rng.randint(4, 12), rng.choice(list(TIMES)), rng.randint(1, 7), rng.randint(2, 15)
    owned = times * count
    return _draft(
        rng,
        (a, b, x, count, times, given, more),
        f"{a} has {count} {x}. {b} has {TIMES[times]} as many. {b} [gives|hands] {given} of them to {a} and later "
        f"[finds|buys|gets] {more} more. How many {x} does {b} have [now|in the end]?",
        [
            (f"{b}'s first count", times, "*", count),
            ("the number after giving", owned, "-", given),
            ("the number in the end", owned - given, "+", more),
        ],
    )


TASK = Task("word_problems", (sheep, shopping, bus, savings, sharing, baking, reading, ages, collecting), check_text)

"""Short reasoning with worked steps, in the place of BBH: the text ends in `Answer: …`."""

from __future__ import annotations

import itertools
import re
from random import Random

from mars_tasks.base import COLORS, DAYS, FRUITS, MONTHS, PEOPLE, VEGETABLES, Draft, Task, last_match, vary

_ANSWER = re.compile(r"Answer:\s*([^\n]+)")
_OPENINGS = "[|Let us [see|think]. |[We|I] go [through it|step by step]. |[Okay|Right|Well]. ]"


def check_text(answer: str, text: str) -> bool:
    """Whether the text after the last `Answer:` is the answer, case and a final full stop aside."""
    found = last_match(_ANSWER, text)
    return found is not None and found.rstrip(".").strip().casefold() == answer.casefold()


def _draft(rng: Random, parameters: tuple[object, ...], prompt: str, steps: list[str], answer: str) -> Draft:
    worked = vary(rng, _OPENINGS + " ".join(steps))
    return Draft(parameters, vary(rng, prompt), f"{worked}\nAnswer: {answer}", answer)


def booleans(rng: Random) -> Draft:
    a, b, c = (rng.choice((True, False)) for _ in range(3))
    flip, first, second = rng.choice(("not ", "")), rng.choice(("and", "or")), rng.choice(("and", "or"))
    who = rng.choice(PEOPLE)
    left = (not a) if flip else a
    inner = (b and c) if second == "and" else (b or c)
    value = (left and inner) if first == "and" else (left or inner)
    return _draft(
        rng,
        (who, a, b, c, flip, first, second),
        f"{who} [writes|says|asks]: {flip}{a} {first} ({b} {second} {c}). [Is it true or false?|What is its value?]",
        [
            f"[The bracket|What is inside|The part in brackets] {b} {second} {c} [is|gives] {inner}.",
            f"[The left side|On the left,|The first part] {flip}{a} [is|gives] {left}.",
            f"[So|Then|Hence] {left} {first} {inner} [is|gives] {value}.",
        ],
        str(value),
    )


def swaps(rng: Random) -> Draft:
    people, colors = rng.sample(PEOPLE, 3), rng.sample(COLORS, 3)
    held = dict(zip(people, colors, strict=True))
    told, steps = [], []
    pairs = []
    for _ in range(2):
        a, b = rng.sample(people, 2)
        pairs.append((a, b))
        held[a], held[b] = held[b], held[a]
        told.append(f"{a} and {b} swap balls.")
        steps.append(f"[After this|Then|Now|After the swap,] {a} [has|holds] {held[a]} and {b} [has|holds] {held[b]}.")
    who = rng.choice(people)
    start = " ".join(f"{p} has a {c} ball." for p, c in zip(people, colors, strict=True))
    return _draft(
        rng,
        (*people, *colors, *pairs, who),
        f"{start} First, {told[0]} Then, {told[1]} [Which|What] ball does {who} have [at the end|now]?",
        [*steps, f"[So|Hence|In the end] {who} [has|holds] [it|the ball]: {held[who]}."],
        held[who],
    )


def ordering(rng: Random) -> Draft:
    a, b, c = rng.sample(PEOPLE, 3)
    more, most, least = rng.choice((("taller", "tallest", "shortest"), ("older", "oldest", "youngest")))
    facts = [f"{a} is {more} than {b}.", f"{b} is {more} than {c}."]
    flipped = rng.random() < 0.5
    if flipped:
        facts.reverse()
    end = rng.choice((most, least))
    answer = a if end == most else c
    return _draft(
        rng,
        (a, b, c, more, end, flipped),
        f"{facts[0]} {facts[1]} Who is the {end}?",
        [
            f"[In order|From the top|Sorted], [we have|it is|they are] {a}, {b}, {c}.",
            f"[So|Then|Hence] the {end} [is|must be] {answer}.",
        ],
        answer,
    )


def weekday(rng: Random) -> Draft:
    start, days, who = rng.randrange(7), rng.randint(1, 20), rng.choice(PEOPLE)
    rest = days % 7
    answer = DAYS[(start + rest) % 7]
    walk = [DAYS[(start + i) % 7] for i in range(rest + 1)]
    steps = [f"[Taking away whole weeks|Without whole weeks|Modulo 7], {days} days [are|leave] {rest}."]
    steps.append(f"[We count|Counting|Going on]: {', '.join(walk)}.")
    return _draft(
        rng,
        (start, days, who),
        f"Today is {DAYS[start]}. {who} [leaves|travels|has a party] in {days} days. [Which|What] day is that?",
        steps,
        answer,
    )


def date(rng: Random) -> Draft:
    month, day, ahead, who = rng.choice(MONTHS), rng.randint(1, 18), rng.randint(2, 10), rng.choice(PEOPLE)
    back = rng.random() < 0.3 and day > ahead
    new = day - ahead if back else day + ahead
    sign = "-" if back else "+"
    when = f"{ahead} days ago" if back else f"in {ahead} days"
    return _draft(
        rng,
        (month, day, ahead, who, back),
        f"Today is {month} {day}. {who}'s birthday {'was' if back else 'is'} {when}. [What|Which] date is [that|it]?",
        [
            (
                f"[We [go|move|count]|[Go|Move|Count]] {'back' if back else 'on'} from the day: "
                f"{day} {sign} {ahead} = {new}."
            ),
            f"[The month|It] [stays|is still] {month}.",
        ],
        f"{month} {new}",
    )


def walking(rng: Random) -> Draft:
    who, moves, position, steps = rng.choice(PEOPLE), [], 0, []
    for index in range(3):
        forward = index == 0 or position < 3 or rng.random() < 0.5
        count = rng.randint(2, 9) if forward else rng.randint(1, position)
        moves.append((forward, count))
        new = position + count if forward else position - count
        if index:
            steps.append(f"[Then|Next|Now] {position} {'+' if forward else '-'} {count} = {new}.")
        else:
            steps.append(f"[The first move|At first it|To begin with, this] [is|makes] {count}.")
        position = new
    told = ", then ".join(f"{count} steps {'forward' if forward else 'back'}" for forward, count in moves)
    return _draft(
        rng,
        (who, *moves),
        f"{who} [takes|walks] {told}. How far from the start is {who}?",
        [*steps, f"[So|Hence] {who} is {position} [steps away|from the start]."],
        str(position),
    )


def counting(rng: Random) -> Draft:
    fruits, others = rng.sample(FRUITS, rng.randint(1, 3)), rng.sample(VEGETABLES, rng.randint(1, 2))
    things = [(name, rng.randint(2, 6), True) for name in fruits] + [
        (name, rng.randint(2, 6), False) for name in others
    ]
    rng.shuffle(things)
    listed = ", ".join(f"{count} {name} pieces" for name, count, _ in things)
    kept = [(name, count) for name, count, fruit in things if fruit]
    total = sum(count for _, count in kept)
    return _draft(
        rng,
        tuple(things),
        f"I [have|see|bought]: {listed}. How many pieces of fruit [are there|is that]?",
        [
            (
                f"[The fruits|The fruit pieces|Of these, fruits] are "
                f"{', '.join(f'{count} {name}' for name, count in kept)}."
            ),
            f"[That is|Together|The sum is] {' + '.join(str(count) for _, count in kept)} = {total}.",
        ],
        str(total),
    )


def liars(rng: Random) -> Draft:
    people = rng.sample(PEOPLE, 3)
    truth = rng.random() < 0.5
    told = [f"{people[0]} always {'tells the truth' if truth else 'lies'}."]
    steps, parameters = [], [truth]
    for previous, who in itertools.pairwise(people):
        claims = rng.random() < 0.5
        parameters.append(claims)
        told.append(f"{who} says {previous} {'tells the truth' if claims else 'lies'}.")
        truth = truth == claims
        steps.append(f"[So|Then|Hence|Thus] {who} {'tells the truth' if truth else 'lies'}.")
    return _draft(
        rng,
        (*people, *parameters),
        f"{' '.join(told)} Does {people[2]} tell the truth?",
        [f"[We know|Given is|It is given that] {people[0]} {'tells the truth' if parameters[0] else 'lies'}.", *steps],
        "yes" if truth else "no",
    )


TASK = Task("logic", (booleans, swaps, ordering, weekday, date, walking, counting, liars), check_text)

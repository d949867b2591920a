"""Four options, short reasoning, then a letter, in the place of MMLU-Pro."""

from __future__ import annotations

import re
from random import Random

from mars_tasks.base import (
    ANIMALS,
    COLORS,
    DAYS,
    FRUITS,
    MONTHS,
    PEOPLE,
    PLACES,
    TOOLS,
    VEGETABLES,
    Draft,
    Task,
    last_match,
    vary,
)

_ANSWER = re.compile(r"answer is \(?([A-D])\b")
_LETTERS = "ABCD"
_OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "early": "late", "open": "closed", "full": "empty", "wet": "dry",
    "hard": "soft", "light": "dark", "old": "new", "loud": "quiet", "high": "low", "rich": "poor", "near": "far",
}  # fmt: skip
_MIXED = {
    ("red", "yellow"): "orange",
    ("blue", "yellow"): "green",
    ("blue", "red"): "purple",
    ("black", "white"): "gray",
}
_CLASSES = {
    "fruit": FRUITS,
    "vegetable": VEGETABLES,
    "animal": ANIMALS,
    "tool": TOOLS,
    "color": COLORS,
    "place": PLACES,
}
_UNITS = (("hours", "minutes", 60), ("weeks", "days", 7), ("dozens", "pieces", 12), ("feet", "inches", 12))


def check_text(answer: str, text: str) -> bool:
    """The letter of the last `answer is (X)` is the answer."""
    return last_match(_ANSWER, text) == answer


def _draft(
    rng: Random, parameters: tuple[object, ...], question: str, worked: str, right: str, wrong: list[str]
) -> Draft:
    """Shuffle `right` among three `wrong` options; the shuffled order counts as a parameter."""
    options = [right, *wrong]
    rng.shuffle(options)
    letter = _LETTERS[options.index(right)]
    listed = ", ".join(f"{option} {mark}" for mark, option in zip(_LETTERS, options, strict=True))
    opening = (
        "[|[Let us|We can|I will] [think|reason|check]. |[Okay|Right|Well]. |[Thinking|Reasoning] [aloud|first]: ]"
    )
    found = f"[This|That|It] [is|stands at|must be] {right} {letter}."
    return Draft(
        (*parameters, *options),
        f"{vary(rng, question)}\nOptions: {listed}",
        f"{vary(rng, f'{opening}{worked} {found}')}\nThe answer is ({letter}).",
        letter,
    )


def _near(rng: Random, value: int) -> list[str]:
    """Three wrong numbers close to `value`."""
    pool = [n for n in range(max(0, value - 6), value + 7) if n != value]
    return [str(n) for n in rng.sample(pool, 3)]


def opposite(rng: Random) -> Draft:
    pairs = list(_OPPOSITES.items())
    word, answer = rng.choice(pairs)
    if rng.random() < 0.5:
        word, answer = answer, word
    wrong = rng.sample([w for pair in pairs for w in pair if w not in (word, answer)], 3)
    return _draft(
        rng,
        (word,),
        f"Which word [means|is] the opposite of {word}?",
        f"[The opposite of|Something not|The contrary of] {word} [is|would be|must be] {answer}.",
        answer,
        wrong,
    )


def arithmetic(rng: Random) -> Draft:
    a, b, who = rng.randint(3, 40), rng.randint(3, 40), rng.choice(PEOPLE)
    sign = rng.choice("+-") if a > b else "+"
    value = a + b if sign == "+" else a - b
    return _draft(
        rng,
        (who, a, b, sign),
        f"{who} [computes|works out] {a} {sign} {b}. [What|Which] is the result?",
        f"[We get|The result is|Computing,|It follows that] {a} {sign} {b} = {value}.",
        str(value),
        _near(rng, value),
    )


def largest(rng: Random) -> Draft:
    numbers = [
        10 * tens + ones for tens, ones in zip(rng.sample(range(1, 10), 4), rng.sample(range(10), 4), strict=True)
    ]
    most = rng.random() < 0.5
    answer = max(numbers) if most else min(numbers)
    word = "largest" if most else "smallest"
    return _draft(
        rng,
        (word,),
        f"Which number is the {word}?",
        f"[Of these four|Comparing them|Among them], the {word} [is|must be] {answer}.",
        str(answer),
        [str(n) for n in numbers if n != answer],
    )


def sequence(rng: Random) -> Draft:
    start, gap = rng.randint(1, 20), rng.randint(2, 9)
    shown = [start + gap * i for i in range(4)]
    answer = start + gap * 4
    return _draft(
        rng,
        (start, gap),
        f"Which number [comes next|continues the list]: {', '.join(map(str, shown))}?",
        f"[Each|Every] [step|time] [adds|is plus] {gap}[.| here.] [So|Then|Hence] {shown[-1]} + {gap} = {answer}.",
        str(answer),
        _near(rng, answer),
    )


def odd_one(rng: Random) -> Draft:
    kind, other = rng.sample(list(_CLASSES), 2)
    members = rng.sample(_CLASSES[kind], 3)
    odd = rng.choice([word for word in _CLASSES[other] if word not in members])
    return _draft(
        rng,
        (kind,),
        f"Which one is not a {kind}?" if kind != "animal" else "Which one is not an animal?",
        f"[Here|Of these|Among them] only {odd} [is|must be] a {other}[.| and no {kind}.]",
        odd,
        members,
    )


def member(rng: Random) -> Draft:
    kind = rng.choice(list(_CLASSES))
    others = rng.sample([name for name in _CLASSES if name != kind], 3)
    right = rng.choice(_CLASSES[kind])
    wrong = [rng.choice([word for word in _CLASSES[name] if word not in _CLASSES[kind]]) for name in others]
    return _draft(
        rng,
        (kind,),
        f"Which of these is a {kind}?" if kind != "animal" else "Which of these is an animal?",
        f"[The|Here the] {kind} [is|must be] {right}[.|, the others are not.]",
        right,
        wrong,
    )


def mixing(rng: Random) -> Draft:
    (a, b), answer = rng.choice(list(_MIXED.items()))
    if rng.random() < 0.5:
        a, b = b, a
    pool = [color for color in (*COLORS, "gray", "pink", "brown") if color not in (a, b, answer)]
    return _draft(
        rng,
        (a, b),
        f"[What|Which] color do you get when you mix {a} and {b} paint?",
        f"[Mixing|Blending|Stirring] {a} and {b} [gives|makes] {answer}.",
        answer,
        rng.sample(pool, 3),
    )


def following(rng: Random) -> Draft:
    cycle = rng.choice((DAYS, MONTHS))
    index, ahead = rng.randrange(len(cycle)), rng.randint(1, 2)
    word, kind = cycle[index], "day" if cycle is DAYS else "month"
    answer = cycle[(index + ahead) % len(cycle)]
    between = f"{cycle[(index + 1) % len(cycle)]}, then {answer}" if ahead == 2 else answer
    return _draft(
        rng,
        (word, ahead),
        f"Which {kind} comes {'right' if ahead == 1 else 'two ' + kind + 's'} after {word}?",
        f"[After|Following] {word} [comes|we have|there is] {between}.",
        answer,
        rng.sample([c for c in cycle if c not in (word, answer)], 3),
    )


def units(rng: Random) -> Draft:
    big, small, factor = rng.choice(_UNITS)
    count = rng.randint(2, 9)
    value = count * factor
    return _draft(
        rng,
        (big, count),
        f"How many {small} are [in|there in] {count} {big}?",
        f"[There are|We have|One counts] {factor} {small} in each. [So|Then|Hence] {count} * {factor} = {value}.",
        str(value),
        _near(rng, value),
    )


TASK = Task(
    "multiple_choice",
    (opposite, arithmetic, largest, sequence, odd_one, member, mixing, following, units),
    check_text,
)

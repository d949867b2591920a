"""Instructions whose following can be verified from the form of the text, in the place of IFEval.

A problem's `answer` is a JSON list of [rule, argument, …]; a text is right when it meets every rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from mars_tasks.base import ANIMALS, COLORS, FRUITS, ITEMS, PEOPLE, PLACES, TOOLS, VEGETABLES, Draft, Task, vary

_LISTS = {"fruits": FRUITS, "vegetables": VEGETABLES, "colors": COLORS, "animals": ANIMALS, "tools": TOOLS}
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def _bullets(text: str) -> list[str]:
    return [line[2:].strip() for line in text.splitlines() if line.startswith("- ") and line[2:].strip()]


RULES: dict[str, Callable[..., bool]] = {
    "contains": lambda text, word: word.casefold() in text.casefold(),
    "avoids": lambda text, word: bool(text.strip()) and not re.search(rf"(?i)\b{re.escape(word.strip())}\b", text),
    "starts": lambda text, word: text.strip().startswith(word),
    "ends": lambda text, word: text.strip().rstrip(".").endswith(word),
    "bullets": lambda text, count: len(_bullets(text)) == count == len(text.strip().splitlines()),
    "sentences": lambda text, count: sum(text.count(mark) for mark in ".!?") == count,
    "upper": lambda text: text.isupper(),
    "lower": lambda text: text.islower(),
    "quoted": lambda text: len(text.strip()) > 2 and text.strip()[0] == text.strip()[-1] == '"',
    "exact": lambda text, wanted: text.strip() == wanted,
    "items": lambda text, kind, count: _are_items(text, kind, count),
    "key": lambda text, key, value: _json_has(text, key, value),
}


def _are_items(text: str, kind: str, count: int) -> bool:
    """`count` different members of the list `kind`, separated by commas or bullets."""
    parts = _bullets(text) or text.strip().rstrip(".").split(",")
    found = {part.strip().casefold() for part in parts}
    return len(parts) == len(found) == count and found <= set(_LISTS[kind])


def _json_has(text: str, key: str, value: str) -> bool:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return data == {key: value}


def check_text(answer: str, text: str) -> bool:
    """Whether `text` meets every rule of `answer`."""
    rules: list[list[Any]] = json.loads(answer)
    return all(RULES[name](text, *arguments) for name, *arguments in rules)


def _draft(rng: Random, parameters: tuple[object, ...], prompt: str, solution: str, rules: list[list[Any]]) -> Draft:
    return Draft(parameters, vary(rng, prompt), solution, json.dumps(rules))


def _sentence(rng: Random, animal: str, place: str) -> str:
    return vary(
        rng,
        f"[The|A|One|This|My] [old|small|quiet|young|brave|happy] {animal} [sleeps|waits|walks|plays|sings|runs] "
        f"[near|behind|beside|around] the [old|big|long|new] {place} [today|at night|in the rain|every day|again].",
    )


def bullet_list(rng: Random) -> Draft:
    kind, count = rng.choice(list(_LISTS)), rng.randint(2, 5)
    who = rng.choice(PEOPLE)
    lines = "\n".join(f"- {word}" for word in rng.sample(_LISTS[kind], count))
    return _draft(
        rng,
        (kind, count, who),
        f"[List|Name] {_NUMBERS[count]} {kind} for {who} as a bullet list[.| with dashes.]",
        lines,
        [["bullets", count], ["items", kind, count]],
    )


def comma_list(rng: Random) -> Draft:
    kind, count, upper = rng.choice(list(_LISTS)), rng.randint(2, 5), rng.random() < 0.5
    who = rng.choice(PEOPLE)
    text = ", ".join(rng.sample(_LISTS[kind], count))
    return _draft(
        rng,
        (kind, count, upper, who),
        f"[Give|Tell] {who} {_NUMBERS[count]} {kind}, separated by commas, "
        f"in {'capital' if upper else 'small'} letters.",
        text.upper() if upper else text,
        [["items", kind, count], ["upper" if upper else "lower"]],
    )


def use_words(rng: Random) -> Draft:
    animal, place = rng.choice(ANIMALS), rng.choice(PLACES)
    who = rng.choice(PEOPLE)
    return _draft(
        rng,
        (animal, place, who),
        f"Write [one|a] sentence for {who} [with|that uses] the words {animal} and {place}.",
        _sentence(rng, animal, place),
        [["contains", animal], ["contains", place], ["sentences", 1]],
    )


def sentence_count(rng: Random) -> Draft:
    animal, count, who = rng.choice(ANIMALS), rng.randint(2, 6), rng.choice(PEOPLE)
    text = " ".join(_sentence(rng, animal, rng.choice(PLACES)) for _ in range(count))
    return _draft(
        rng,
        (animal, count, who),
        f"[Tell|Write] {who} a story of exactly {_NUMBERS[count]} sentences about a {animal}.",
        text,
        [["sentences", count], ["contains", animal]],
    )


def start_and_end(rng: Random) -> Draft:
    first, last, animal = rng.choice(PEOPLE), rng.choice(PLACES), rng.choice(ANIMALS)
    text = vary(
        rng,
        f"{first} [saw|met|heard|found|drew] [the|a|one|that] [old|small|quiet|young|brave|happy] {animal} "
        f"[near|behind|beside|at] the {last}.",
    )
    return _draft(
        rng,
        (first, last, animal),
        f"Write a sentence about a {animal} that [starts|begins] with {first} and ends with {last}.",
        text,
        [["starts", first], ["ends", last], ["contains", animal], ["sentences", 1]],
    )


def quoted(rng: Random) -> Draft:
    who, item, place = rng.choice(PEOPLE), rng.choice(ITEMS), rng.choice(PLACES)
    text = vary(
        rng,
        f"[I|We] [left|lost|saw|found|sold] [all the|some|many|a few] {item} [near|behind|beside|at] the "
        f"[old|big|new|far] {place}.",
    )
    return _draft(
        rng,
        (who, item, place),
        f"[What might|What would] {who} say about {item} and the {place}? "
        f"Put the [whole answer|text] in double quotes.",
        f'"{text}"',
        [["quoted"], ["contains", item], ["contains", place]],
    )


def repeat(rng: Random) -> Draft:
    word, count, sign = rng.choice(ANIMALS + PLACES + FRUITS), rng.randint(2, 5), rng.choice((",", " and", ";"))
    return _draft(
        rng,
        (word, count, sign),
        f"Write the word {word} [exactly|just] {_NUMBERS[count]} times with "
        f"{ {',': 'commas', ' and': 'and', ';': 'semicolons'}[sign] } between.",
        f"{sign} ".join([word] * count),
        [["exact", f"{sign} ".join([word] * count)]],
    )


def avoid_word(rng: Random) -> Draft:
    animal, place, banned = rng.choice(ANIMALS), rng.choice(PLACES), rng.choice(("old", "big", "new", "small"))
    text = _sentence(rng, animal, place)
    while f" {banned} " in text:
        text = _sentence(rng, animal, place)
    return _draft(
        rng,
        (animal, place, banned),
        f"Write one sentence about a {animal} at the {place} [without|that avoids] the word {banned}.",
        text,
        [["contains", animal], ["contains", place], ["avoids", f" {banned} "], ["sentences", 1]],
    )


def json_object(rng: Random) -> Draft:
    key, value, who = rng.choice(("animal", "friend", "pet")), rng.choice(ANIMALS), rng.choice(PEOPLE)
    return _draft(
        rng,
        (key, value, who),
        f"{who}'s {key} is a {value}. [Give|Write] this as JSON with the key {key}.",
        json.dumps({key: value}),
        [["key", key, value]],
    )


TASK = Task(
    "instructions",
    (
        bullet_list,
        comma_list,
        use_words,
        sentence_count,
        start_and_end,
        quoted,
        repeat,
        avoid_word,
        json_object,
    ),
    check_text,
)

"""Recall drills: training-only conversations in which nearly every token of the answer is found by its neighbour.

A model trained from scratch on the tasks alone learns arithmetic and wording long before it learns to look a word up in
the prompt, for few tokens of a solution need it. In a drill almost all do (docs/log.md).
"""

from __future__ import annotations

from random import Random

from mars.tasks.vocabulary import ANIMALS, CITIES, COLORS, FRUITS, ITEMS, PEOPLE, PLACES, TOOLS, VEGETABLES

_WORDS = (*PEOPLE, *CITIES, *ITEMS, *COLORS, *ANIMALS, *PLACES, *FRUITS, *VEGETABLES, *TOOLS)
_LETTERS = "ABCDEFGH"


def drill(seed: int) -> list[dict[str, str]]:
    """Rows of words, numbers and letters, to be said again in another order. The same for a seed on any machine."""
    rng = Random(f"drill/{seed}")
    count, width = rng.randint(3, 7), rng.randint(1, 2)
    rows = [[key, *(_cell(rng, index) for _ in range(width))] for index, key in enumerate(_keys(rng, count))]
    lines = [" ".join(row) for row in rows]
    listed = "\n".join(f"- {line}" for line in lines) if rng.random() < 0.5 else f"Options: {', '.join(lines)}"
    order = rng.sample(range(count), rng.randint(2, count))
    wanted = ", ".join(rows[index][0] for index in order)
    return [
        {"role": "user", "content": f"{listed}\nSay again: {wanted}"},
        {"role": "assistant", "content": ", ".join(lines[index] for index in order)},
    ]


def _keys(rng: Random, count: int) -> list[str]:
    if rng.random() < 0.3:
        return [str(10 * rng.randint(1, 9) + ones) for ones in rng.sample(range(10), count)]
    return rng.sample(_WORDS, count)


def _cell(rng: Random, index: int) -> str:
    kind = rng.random()
    if kind < 0.3:
        return _LETTERS[index]
    return str(rng.randint(10, 99)) if kind < 0.55 else rng.choice(_WORDS)

"""A small table in the prompt and one question about it, in the place of GPQA."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mars.tasks.base import Draft, Task, names, vary
from mars.tasks.logic import check_text
from mars.tasks.vocabulary import CITIES, COLORS, FRUITS, PEOPLE, TOOLS

_KEYS = {"name": PEOPLE, "city": CITIES, "fruit": FRUITS, "tool": TOOLS}
_NUMBERS = ("price", "weight", "stock", "score", "level", "size")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of (key, number, color) under the headers `key`, `number` and color."""

    key: str
    number: str
    rows: tuple[tuple[str, int, str], ...]

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self.key, self.number, *self.rows)

    @property
    def text(self) -> str:
        lines = [f"{self.key} | {self.number} | color"]
        return "\n".join(lines + [f"{key} | {number} | {color}" for key, number, color in self.rows])


def _table(rng: Random) -> Table:
    key, number, count = rng.choice(list(_KEYS)), rng.choice(_NUMBERS), rng.randint(3, 4)
    values = rng.sample(range(2, 60), count)
    rows = zip(names(rng, count, _KEYS[key]), values, names(rng, count, COLORS), strict=True)
    return Table(key, number, tuple(rows))


def _draft(rng: Random, table: Table, extra: tuple[object, ...], question: str, worked: str, answer: str) -> Draft:
    opening = "[|[Look|Looking] at the table. |[Okay|Right|Well]. |[We|I] read the rows. ]"
    return Draft(
        (*table.parameters, *extra),
        f"{table.text}\n{vary(rng, question)}",
        f"{vary(rng, opening + worked)}\nAnswer: {answer}",
        answer,
    )


def cell(rng: Random) -> Draft:
    table = _table(rng)
    key, number, color = rng.choice(table.rows)
    if rng.random() < 0.5:
        question, what, answer = f"What is the {table.number} of {key}?", table.number, str(number)
    else:
        question, what, answer = f"[Which|What] color does {key} have?", "color", color
    return _draft(
        rng,
        table,
        (key, what),
        question,
        f"[The row of {key} [says|shows|reads]|In the row of {key} [stands|we see|we find]] {key}, {number}, {color}. "
        f"[So|Then|Hence] the {what} [is|must be] {answer}.",
        answer,
    )


def by_number(rng: Random) -> Draft:
    table = _table(rng)
    key, number, color = rng.choice(table.rows)
    return _draft(
        rng,
        table,
        (key,),
        f"Which {table.key} has a {table.number} of {number}?",
        f"[We look for|The number to find is|Searching for] {number}. "
        f"[It stands|We find it|It is] in the row {key}, {number}, {color}.",
        key,
    )


def by_color(rng: Random) -> Draft:
    table = _table(rng)
    key, number, color = rng.choice(table.rows)
    return _draft(
        rng,
        table,
        (key,),
        f"What is the {table.number} of the {table.key} [with color|whose color is] {color}?",
        f"[The color {color}|{color.capitalize()}] [stands|is found|appears] in the row {key}, {number}, {color}. "
        f"[So|Then|Hence] the {table.number} [is|must be] {number}.",
        str(number),
    )


def extreme(rng: Random) -> Draft:
    table = _table(rng)
    most = rng.random() < 0.5
    word = "highest" if most else "lowest"
    key, number, _ = (max if most else min)(table.rows, key=lambda row: row[1])
    values = ", ".join(str(row[1]) for row in table.rows)
    return _draft(
        rng,
        table,
        (word,),
        f"Which {table.key} has the {word} {table.number}?",
        f"[The values are|We compare|The column reads] {values}. "
        f"The {word} [is|of these is|one is] {number}, [in the row of|which belongs to|that is] {key}.",
        key,
    )


def difference(rng: Random) -> Draft:
    table = _table(rng)
    a, b = sorted(rng.sample(table.rows, 2), key=lambda row: -row[1])
    return _draft(
        rng,
        table,
        (a[0], b[0]),
        f"By how much is the {table.number} of {a[0]} [higher|larger] than that of {b[0]}?",
        f"{a[0]} [has|shows] {a[1]} and {b[0]} [has|shows] {b[1]}. "
        f"[The difference is|So we get|We subtract:] {a[1]} - {b[1]} = {a[1] - b[1]}.",
        str(a[1] - b[1]),
    )


def total(rng: Random) -> Draft:
    table = _table(rng)
    a, b = rng.sample(table.rows, 2)
    return _draft(
        rng,
        table,
        (a[0], b[0]),
        f"What is the {table.number} of {a[0]} and {b[0]} [together|in total]?",
        f"{a[0]} [has|shows] {a[1]} and {b[0]} [has|shows] {b[1]}. "
        f"[The sum is|So we get|We add:] {a[1]} + {b[1]} = {a[1] + b[1]}.",
        str(a[1] + b[1]),
    )


def compare(rng: Random) -> Draft:
    table = _table(rng)
    a, b = rng.sample(table.rows, 2)
    answer = "yes" if a[1] > b[1] else "no"
    relation = "more than" if a[1] > b[1] else "less than"
    return _draft(
        rng,
        table,
        (a[0], b[0]),
        f"Does {a[0]} have a higher {table.number} than {b[0]}?",
        f"{a[0]} [has|shows] {a[1]}[,| and] {b[0]} [has|shows] {b[1]}. [Here|So|Now] {a[1]} is {relation} {b[1]}.",
        answer,
    )


def row_count(rng: Random) -> Draft:
    table = _table(rng)
    limit = rng.randint(10, 45)
    above = [row for row in table.rows if row[1] > limit]
    listed = ", ".join(f"{row[0]} ({row[1]})" for row in above) or "none of them"
    return _draft(
        rng,
        table,
        (limit,),
        f"How many rows have a {table.number} [above|over|of more than] {limit}?",
        f"[Above|Over] {limit} [are|we find|there are]: {listed}. [That makes|So there are|The count is] {len(above)}.",
        str(len(above)),
    )


TASK = Task("table_lookup", (cell, by_number, by_color, extreme, difference, total, compare, row_count), check_text)

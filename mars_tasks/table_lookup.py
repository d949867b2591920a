"""A small table in the prompt and one question about it, in the place of GPQA."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mars_tasks.base import CITIES, COLORS, FRUITS, PEOPLE, TOOLS, Draft, Task, vary
from mars_tasks.logic import check_text

_KEYS = {"name": PEOPLE, "city": CITIES, "fruit": FRUITS, "tool": TOOLS}
_NUMBERS = ("price", "weight", "stock", "score", "level", "size")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a name, a number and a color, each its own."""

    key: str
    number: int
    color: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the headers `key`, `number` and color, in the order of `columns`."""

    key: str
    number: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def line(self, row: Row) -> str:
        """The cells of one row, in order."""
        return " ".join(str(getattr(row, column)) for column in self.columns)

    @property
    def parameters(self) -> tuple[object, ...]:
        """The values that tell this table from others."""
        return (self.key, self.number, *map(self.line, self.rows))

    @property
    def text(self) -> str:
        """The table as it stands in the prompt."""
        headers = {"key": self.key, "number": self.number, "color": "color"}
        lines = [", ".join(headers[column] for column in self.columns), *(f"- {self.line(row)}" for row in self.rows)]
        return "\n".join(lines)


def _table(rng: Random, *columns: str) -> Table:
    """3 or 4 rows whose numbers end in different digits; the column to search stands first."""
    key, number, count = rng.choice(list(_KEYS)), rng.choice(_NUMBERS), rng.randint(3, 4)
    values = [10 * rng.randint(1, 5) + ones for ones in rng.sample(range(10), count)]
    rows = zip(rng.sample(_KEYS[key], count), values, rng.sample(COLORS, count), strict=True)
    return Table(key, number, columns or ("key", "color", "number"), tuple(Row(*row) for row in rows))


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
    row = rng.choice(table.rows)
    if rng.random() < 0.5:
        question, what, answer = f"What is the {table.number} of {row.key}?", table.number, str(row.number)
    else:
        question, what, answer = f"[Which|What] color does {row.key} have?", "color", row.color
    return _draft(
        rng,
        table,
        (row.key, what),
        question,
        f"[The row [says|shows|reads]|There [stands|is]|We [see|find]] {table.line(row)}. "
        f"[So|Then|Hence] the {what} [is|must be] {answer}.",
        answer,
    )


def by_number(rng: Random) -> Draft:
    table = _table(rng, "number", "key", "color")
    row = rng.choice(table.rows)
    return _draft(
        rng,
        table,
        (row.key,),
        f"Which {table.key} has a {table.number} of {row.number}?",
        f"[We look for|The number to find is|Searching for] {row.number}. "
        f"[There stands|We find|It is in] {table.line(row)}.",
        row.key,
    )


def by_color(rng: Random) -> Draft:
    table = _table(rng, "color", "key", "number")
    row = rng.choice(table.rows)
    return _draft(
        rng,
        table,
        (row.key,),
        f"What is the {table.number} of the {table.key} [with color|whose color is] {row.color}?",
        f"[The row [says|shows|reads]|There [stands|is]|We [see|find]] {table.line(row)}. "
        f"[So|Then|Hence] the {table.number} [is|must be] {row.number}.",
        str(row.number),
    )


def extreme(rng: Random) -> Draft:
    table = _table(rng, "number", "key", "color")
    most = rng.random() < 0.5
    word = "highest" if most else "lowest"
    row = (max if most else min)(table.rows, key=lambda row: row.number)
    values = ", ".join(str(row.number) for row in table.rows)
    return _draft(
        rng,
        table,
        (word,),
        f"Which {table.key} has the {word} {table.number}?",
        f"[The values are|We compare|The column reads] {values}. "
        f"The {word} [is|of these is|one is] in {table.line(row)}.",
        row.key,
    )


def _two(table: Table, a: Row, b: Row) -> str:
    return f"[We see|There stand|The rows are] {table.line(a)} and {table.line(b)}."


def difference(rng: Random) -> Draft:
    table = _table(rng)
    b, a = sorted(rng.sample(table.rows, 2), key=lambda row: row.number)
    return _draft(
        rng,
        table,
        (a.key, b.key),
        f"By how much is the {table.number} of {a.key} [higher|larger] than that of {b.key}?",
        f"{_two(table, a, b)} "
        f"[The difference is|So we get|We subtract:] {a.number} - {b.number} = {a.number - b.number}.",
        str(a.number - b.number),
    )


def total(rng: Random) -> Draft:
    table = _table(rng)
    a, b = rng.sample(table.rows, 2)
    return _draft(
        rng,
        table,
        (a.key, b.key),
        f"What is the {table.number} of {a.key} and {b.key} [together|in total]?",
        f"{_two(table, a, b)} [The sum is|So we get|We add:] {a.number} + {b.number} = {a.number + b.number}.",
        str(a.number + b.number),
    )


def compare(rng: Random) -> Draft:
    table = _table(rng)
    a, b = rng.sample(table.rows, 2)
    relation = "more than" if a.number > b.number else "less than"
    return _draft(
        rng,
        table,
        (a.key, b.key),
        f"Does {a.key} have a higher {table.number} than {b.key}?",
        f"{_two(table, a, b)} [Here|So|Now] {a.number} is {relation} {b.number}.",
        "yes" if a.number > b.number else "no",
    )


def row_count(rng: Random) -> Draft:
    table = _table(rng)
    limit = rng.randint(15, 45)
    above = [row for row in table.rows if row.number > limit]
    listed = ", ".join(f"{row.key} ({row.number})" for row in above) or "none of them"
    return _draft(
        rng,
        table,
        (limit,),
        f"How many rows have a {table.number} [above|over|of more than] {limit}?",
        f"[Above|Over] {limit} [are|we find|there are]: {listed}. [That makes|So there are|The count is] {len(above)}.",
        str(len(above)),
    )


TASK = Task("table_lookup", (cell, by_number, by_color, extreme, difference, total, compare, row_count), check_text)

"""The lines of a value, of pieces, or of both: each is heard once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from app import assets

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

HEAR = """([script, steps]) => {
  const Lines = new Function(`${script}; return Lines`)();
  const heard = [];
  const lines = new Lines((message) => heard.push(message));
  for (const [way, ...what] of steps) lines[way](...what);
  return heard;
}"""


@pytest.fixture
def hear(mount: Callable[..., Page]) -> Callable[..., list[Any]]:
    """`hear(("read", value), ("more", after, piece), …)`: the messages that `Lines` hands on."""
    tab = mount()
    return lambda *steps: tab.evaluate(HEAR, [assets.script("lines.js"), steps])


def written(numbers: Sequence[int]) -> str:
    return "".join(f"{number}\n" for number in numbers)


@pytest.mark.parametrize(
    ("steps", "heard"),
    [
        ([("read", "0\n1\n"), ("read", "0\n1\n2\n")], [0, 1, 2]),
        ([("read", "0\n1"), ("read", "0\n12\n")], [0, 12]),
        ([("read", None), ("read", ""), ("read", "0"), ("read", "0\n")], [0]),
        ([("read", "0\n1\n"), ("read", "5\n")], [0, 1, 5]),
        ([("read", "0\n"), ("more", 1, "1\n2\n"), ("read", "5\n6\n")], [0, 1, 2, 5, 6]),
        ([("read", "0\n"), ("more", 1, "1\n"), ("read", "5\n"), ("more", 1, "6\n")], [0, 1, 5, 6]),
        ([("more", 0, "0\n1\n"), ("more", 2, "2\n")], [0, 1, 2]),
        ([("read", "0\n"), ("more", 1, "1\n2\n"), ("read", "0\n1\n2\n3\n")], [0, 1, 2, 3]),
        ([("read", "0\n1\n2\n3\n"), ("more", 1, "1\n2\n")], [0, 1, 2, 3]),
        ([("read", "0\n1\n2\n"), ("more", 1, "1\n2\n3\n4\n")], [0, 1, 2, 3, 4]),
        ([("read", "0\n"), ("more", 2, "2\n3\n"), ("more", 1, "1\n")], [0, 1]),
        ([("read", "0\n"), ("more", 1, ""), ("more", 1, "1\n2")], [0, 1]),
    ],
    ids=[
        "a growing value",
        "a line that is not whole yet",
        "nothing yet",
        "another first line starts anew",
        "anew after pieces",
        "pieces of what began anew",
        "pieces alone",
        "a value that comes later than the pieces",
        "a piece in the middle of what is known",
        "a piece that is partly known",
        "a piece behind a gap",
        "a piece that ends within a line",
    ],
)
def test_each_line_is_heard_once(
    hear: Callable[..., list[Any]], steps: Sequence[Sequence[Any]], heard: list[int]
) -> None:
    assert hear(*steps) == heard


def test_the_order_in_which_value_and_pieces_come_does_not_matter(hear: Callable[..., list[Any]]) -> None:
    random = Random(0)
    for _ in range(50):
        steps, fetched, value = [("read", written([0]))], 1, 1
        while len(steps) < 20:
            if random.random() < 0.5:
                value = random.randint(value, max(value, fetched) + 3)
                steps.append(("read", written(range(value))))
            else:
                after = random.randint(0, max(value, fetched))
                fetched = max(fetched, after + random.randint(0, 4))
                steps.append(("more", after, written(range(after, fetched))))
        assert hear(*steps) == list(range(max(value, fetched)))

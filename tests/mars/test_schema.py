"""Data from outside: what is read, and the one sentence for what is not."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mars.schema import Strict, as_json, between, bounds, checked, one_of, parse, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf(Strict):
    share: Annotated[float, bounds(0.0, 1.0)] = 0.5
    count: Annotated[int, Field(ge=1)] = 1
    sign: Literal["+", "-"] = "+"

    def __post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("count must not be 13")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Strict):
    name: Annotated[str, Field(min_length=1, max_length=5)]
    leaves: Annotated[tuple[Leaf, ...], Field(max_length=2)] = ()
    named: dict[int, bool] = field(default_factory=dict)


def test_what_is_written_is_read_back() -> None:
    tree = Tree(name="<oak>", leaves=(Leaf(share=1.0), Leaf(sign="-")), named={3: True})
    text = as_json(tree)
    assert "<" not in text
    assert parse(Tree, text) == tree
    assert checked(Tree, {"name": "elm", "leaves": [{"share": 1}]}) == Tree(
        name="elm", leaves=(Leaf(share=1.0),), named={}
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 5}, "tree: name must be text, got 5"),
        ({"name": ""}, "tree: name must have at least 1 character, got 0"),
        ({"name": "\ud800"}, "tree must be valid Unicode, but holds half a surrogate pair"),
        ({"bark": 1}, "tree: bark is unknown: there is no such field"),
        ({"leaves": 3}, "tree: leaves must be a list, got 3"),
        ({"leaves": [{}] * 3}, "tree: leaves must have at most 2 entries, got 3"),
        ({"leaves": ["x"]}, "tree: leaves[0] must be an object, got 'x'"),
        ({"leaves": [{}, {"share": 2}]}, "tree: leaves[1].share must be a number from 0 to 1, got 2"),
        ({"leaves": [{"share": float("nan")}]}, "tree: leaves[0].share must be a number from 0 to 1, got nan"),
        ({"leaves": [{"count": 0}]}, "tree: leaves[0].count must be at least 1, got 0"),
        ({"leaves": [{"count": True}]}, "tree: leaves[0].count must be a whole number, got True"),
        ({"leaves": [{"count": 13}]}, "tree: leaves[0]: count must not be 13"),
        ({"leaves": [{"sign": "?"}]}, "tree: leaves[0].sign must be one of +, -, got '?'"),
        ({"named": {"x": True}}, "a key of tree: named must be a whole number, got 'x'"),
        ({"named": {"1": "yes"}}, "tree: named.1 must be true or false, got 'yes'"),
    ],
)
def test_the_sentence_says_where_and_what_is_allowed(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        checked(Tree, {"name": "oak", **change}, "tree")
    assert str(caught.value) == sentence
    assert caught.value.__cause__ is None


def test_without_a_name_the_whole_is_the_document() -> None:
    for text, sentence in (("{}", "name is missing"), ("[]", "the document must be an object, got []")):
        with pytest.raises(ValueError) as caught:
            parse(Tree, text)
        assert str(caught.value) == sentence


def test_single_values_are_checked_too() -> None:
    assert checked(between(int, 1, 3), 2, "The count") == 2
    assert checked(one_of(("a", "b")), "b", "The letter") == "b"
    for kind, value, sentence in (
        (between(int, 1, 3), 2.5, "The count must be a whole number from 1 to 3, got 2.5"),
        (between(float, 0, 1), None, "The count must be a whole number from 0 to 1, got None"),
        (one_of(("a", "b")), "c", "The count must be one of a, b, got 'c'"),
        (text_of(2), "abc", "The count must have at most 2 characters, got 3"),
        (text_of(2), object, "The count must be plain JSON, got <class 'object'>"),
    ):
        with pytest.raises(ValueError) as caught:
            checked(kind, value, "The count")
        assert str(caught.value) == sentence


def test_numbers_that_json_lacks_are_not_written() -> None:
    with pytest.raises(ValueError):
        as_json(Leaf(share=float("nan")))

import pytest

from app.compare.difference import Differences


def test_texts_part_at_the_first_other_character() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ["one ", "two ", "three"])
    assert not differences.add("mars", ["on", "e t"])
    assert differences.add("mars", ["wo th", "irty"]) == [{"ar": 2, "mars": 3}]
    assert not differences.add("ar", [" more"]), "only the first difference counts"


@pytest.mark.parametrize(
    ("baseline", "other", "found"),
    [
        (["a", "b", "c", ""], ["ab", "", "c"], []),
        (["a", "b", ""], ["a", "b", "c"], [{"ar": 2, "mars": 2}]),
        ([], ["a"], [{"ar": 0, "mars": 0}]),
    ],
    ids=["other tokens", "shorter", "no token"],
)
def test_an_ended_text_parts_from_a_longer(baseline: list[str], other: list[str], found: list[dict[str, int]]) -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", baseline)
    assert not differences.add("mars", other)
    assert differences.add("ar", ends=True) == found
    assert not differences.add("mars", ends=True)


def test_one_lane_alone_has_nothing_to_differ_from() -> None:
    differences = Differences("ar", [])
    assert not differences.add("ar", ["a"])
    assert not differences.add("ar", ends=True)


def test_each_other_lane_is_compared_with_the_baseline() -> None:
    differences = Differences("a", ["b", "c"])
    assert differences.add("a", ["one ", "two"]) == []
    assert differences.add("b", ["one ", "too"]) == [{"a": 1, "b": 1}]
    assert differences.add("b", [" many"]) == []
    assert differences.add("c", ["one two"]) == []
    assert differences.add("a", ends=True) == []
    assert differences.add("c", ends=True) == []
    assert differences.same(["a", "b", "c"]) == ["c"]
    assert differences.same(["b", "c"]) == []
    several = Differences("a", ["b", "c"])
    several.add("b", ["x"])
    several.add("c", ["y"])
    assert several.add("a", ["z"]) == [{"a": 0, "b": 0}, {"a": 0, "c": 0}]


def test_agreement_counts_whole_tokens_of_both() -> None:
    differences = Differences("a", ["b"])
    differences.add("a", ["one ", "two ", "three"])
    assert differences.agreeing("a") == {"b": 0}
    for piece, tokens in ((["one tw", "o th"], 2), (["", "ree", " four"], 4)):
        differences.add("b", piece)
        assert differences.agreeing("b") == {"b": tokens}
    differences.add("a", [" five"])
    assert differences.agreeing("a") == {}


def test_a_token_without_text_is_not_claimed() -> None:
    differences = Differences("a", ["b"])
    differences.add("a", ["x", "é"])
    differences.add("b", ["x", ""])
    assert differences.agreeing("b") == {"b": 1}
    differences.add("b", ["é"])
    assert differences.agreeing("b") == {"b": 3}

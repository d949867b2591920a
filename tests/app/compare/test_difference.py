from app.compare.difference import Differences


def test_texts_part_at_the_first_other_character() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ["one ", "two ", "three"])
    assert not differences.add("mars", ["on", "e t"])
    assert differences.add("mars", ["wo th", "irty"]) == [{"ar": 2, "mars": 3}]


def test_other_tokens_of_one_text_do_not_differ() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ["a", "b", "c", ""])
    assert not differences.add("mars", ["ab", "", "c"])
    assert not differences.add("ar", ends=True)
    assert not differences.add("mars", ends=True)


def test_an_ended_text_parts_from_a_longer() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ["a", "b", ""])
    assert not differences.add("mars", ["a", "b", "c"])
    assert differences.add("ar", ends=True) == [{"ar": 2, "mars": 2}]


def test_a_text_may_end_without_a_token() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ends=True)
    assert differences.add("mars", ["a"]) == [{"ar": 0, "mars": 0}]


def test_only_the_first_difference_counts() -> None:
    differences = Differences("ar", ["mars"])
    assert not differences.add("ar", ["x"])
    assert differences.add("mars", ["y"]) == [{"ar": 0, "mars": 0}]
    assert not differences.add("ar", ["z"])


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


def test_the_baseline_parts_from_several_at_once() -> None:
    differences = Differences("a", ["b", "c"])
    differences.add("b", ["x"])
    differences.add("c", ["y"])
    assert differences.add("a", ["z"]) == [{"a": 0, "b": 0}, {"a": 0, "c": 0}]


def test_agreement_counts_whole_tokens_that_both_have_written() -> None:
    differences = Differences("a", ["b"])
    differences.add("a", ["one ", "two ", "three"])
    assert differences.agreeing("a") == {"b": 0}
    differences.add("b", ["one tw", "o th"])
    assert differences.agreeing("b") == {"b": 2}
    differences.add("b", ["ree", " four"])
    assert differences.agreeing("b") == {"b": 3}
    differences.add("a", [" five"])
    assert differences.agreeing("a") == {}


def test_a_token_without_text_is_not_claimed() -> None:
    differences = Differences("a", ["b"])
    differences.add("a", ["x", "é"])
    differences.add("b", ["x", ""])
    assert differences.agreeing("b") == {"b": 1}
    differences.add("b", ["é"])
    assert differences.agreeing("b") == {"b": 3}

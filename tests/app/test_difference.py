from app.difference import FirstDifference


def test_texts_part_at_the_token_that_holds_the_first_other_character() -> None:
    difference = FirstDifference(["ar", "mars"])
    assert not difference.add("ar", ["one ", "two ", "three"])
    assert not difference.add("mars", ["on", "e t"])
    assert difference.add("mars", ["wo th", "irty"])
    assert difference.tokens == {"ar": 2, "mars": 3}


def test_the_same_text_in_other_tokens_does_not_differ() -> None:
    difference = FirstDifference(["ar", "mars"])
    difference.add("ar", ["a", "b", "c", ""])
    assert not difference.add("mars", ["ab", "", "c"])
    assert not difference.end("ar")
    assert not difference.end("mars")
    assert difference.tokens is None


def test_a_text_that_ended_parts_from_one_that_goes_on() -> None:
    difference = FirstDifference(["ar", "mars"])
    difference.add("ar", ["a", "b", ""])
    difference.add("mars", ["a", "b", "c"])
    assert difference.tokens is None
    assert difference.end("ar")
    assert difference.tokens == {"ar": 2, "mars": 2}


def test_only_the_first_difference_counts() -> None:
    difference = FirstDifference(["ar", "mars"])
    difference.add("ar", ["x"])
    assert difference.add("mars", ["y"])
    assert not difference.add("ar", ["z"])
    assert difference.tokens == {"ar": 0, "mars": 0}


def test_one_lane_alone_has_nothing_to_differ_from() -> None:
    difference = FirstDifference(["ar"])
    assert not difference.add("ar", ["a"])
    assert not difference.end("ar")

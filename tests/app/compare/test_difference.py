import pytest

from app.compare.comparison import Differences


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

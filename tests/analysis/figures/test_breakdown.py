"""Where masks gain: rates of each bin with their intervals, a panel for each of four questions, and the words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures

QUESTION: dict[str, Any] = {"tokens": 12, "passes": 6, "position": [[8, 4], [4, 2]], "entropy": [[9, 3], [3, 3]]}
SHORT: dict[str, Any] = {"tokens": 4, "passes": 2, "position": [[4, 2], [0, 0]], "entropy": [[4, 2], [0, 0]]}
MEASURED: dict[str, Any] = {
    "block_size": 4,
    "positions": [0, 8],
    "entropies": [0.0, 0.1],
    "results": [
        {"block_size": 2, "questions": [{**QUESTION, "passes": 8}] * 10},
        {"block_size": 4, "questions": [QUESTION] * 8 + [SHORT] * 2},
    ],
    "training": [{"hours": 0.25, "tokens": 1.7}, {"hours": 2.9, "tokens": 2.4}],
}


def test_each_bin_has_its_tokens_over_the_passes_that_end_in_it() -> None:
    points = figures.breakdown_points(MEASURED).set_index(["by", "label"])
    assert points["tokens_per_forward"].to_dict() == {
        ("position", "1–8"): 2.0,
        ("position", "9+"): 2.0,
        ("entropy", "< 0.1"): pytest.approx(80 / 28),
        ("entropy", "≥ 0.1"): 1.0,
        ("masks", "1"): 1.5,
        ("masks", "3"): 2.0,
        ("training", "0.2"): 1.7,
        ("training", "2.9"): 2.4,
    }
    assert points.loc[("position", "9+"), "n"] == 8
    low, value, high = points.loc[
        ("entropy", "< 0.1"), ["tokens_per_forward_low", "tokens_per_forward", "tokens_per_forward_high"]
    ]
    assert low < value <= high
    assert points.loc["training"]["n"].isna().all()


def test_bins_that_few_questions_reach_are_left_out() -> None:
    few = {"block_size": 4, "questions": [QUESTION] * 7 + [SHORT] * 3}
    points = figures.breakdown_points({**MEASURED, "results": [few]})
    assert points.loc[points["by"] == "position", "label"].tolist() == ["1–8"]


def test_the_figure_has_a_panel_for_each_and_the_words_a_sentence() -> None:
    figure = figures.breakdown(MEASURED)
    assert [trace.name.split(" (")[0] for trace in figure.data] == [
        "position in the answer",
        "entropy of the model at a token",
        "masks of a block",
        "hours of training",
    ]
    assert figure.data[0].error_y.array is not None
    assert figure.data[3].error_y.array is None
    assert "96 tokens" not in figure.data[2].hovertext[1]
    assert "104 tokens, 52 passes, n = 10" in figure.data[2].hovertext[1]
    words = figures.breakdown_words(figures.breakdown_points(MEASURED))
    assert words.startswith("A pass writes 2.00 [2.00, 2.00] tokens in tokens 1–8 of an answer and 2.00 [")
    assert words.endswith("By its log, it writes 1.70 after 0.2 hours of training and 2.40 after 2.9.")
    assert "It writes 1.50 [" in words


def test_without_counts_the_figure_says_so() -> None:
    figure = figures.breakdown(None)
    assert not figure.data
    assert "python -m analysis breakdown" in figure.layout.annotations[0].text.replace("<br>", " ")
    assert figures.breakdown_words(figures.breakdown_points(None)) == ""

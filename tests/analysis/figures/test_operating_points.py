"""The fastest settings that lose little."""

import pandas as pd
import pytest

from analysis import figures
from analysis.figures.operating_points import judged


def test_equal_accuracy_takes_the_fastest_sure_setting(table: pd.DataFrame) -> None:
    points = figures.equal_accuracy_points(table, points=10)
    sliding = points[points["series"] == "mars-b8 · sliding_window"].iloc[0]
    assert sliding["qualifies"]
    assert sliding["tried"] > 3, "corrected for all that were tried, not for its series alone"
    assert sliding["threshold"] != 0.5
    margin = points[points["series"] == "mars-b8 · sliding_window · margin"].iloc[0]
    assert not margin["qualifies"]
    figure = figures.equal_accuracy(table, points=10)
    assert not [label for label in figure.data[0].y if "margin" in label]
    assert "more without a setting" in figure.layout.annotations[-1].text.replace("<br>", " ")


def test_equal_accuracy_says_when_nothing_qualifies(table: pd.DataFrame) -> None:
    figure = figures.equal_accuracy(table[table["threshold"] == 0.5], points=1)
    assert not figure.data
    assert figure.layout.annotations[0].text.replace("<br>", " ").startswith("No setting of the selection surely loses")


def test_exact_decoders_with_ars_text_need_no_test(table: pd.DataFrame) -> None:
    exact = table["decoder"] == "self_speculative"
    found = judged(table.assign(same_text=table["same_text"].where(~exact, 1.0)), points=0.1)
    assert set(found.loc[found["sure"], "decoder"]) <= {"self_speculative", "autoregressive"}
    assert found.loc[found["decoder"] == "self_speculative", "qualifies"].all()
    assert not found.loc[found["threshold"] == 0.5, "qualifies"].any()


@pytest.mark.parametrize("points", [2.0, 30.0])
def test_bound_and_decision_agree(table: pd.DataFrame, points: float) -> None:
    found = judged(table, points=points)
    tested = found[found["p_value"].notna()]
    assert list(tested["qualifies"]) == list(tested["loss_at_most"] <= points)

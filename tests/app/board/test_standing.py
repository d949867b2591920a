from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from analysis.stats.intervals import wilson_interval
from app.board.lane import BoardLane, Outcome
from app.board.messages import pairs, standing
from mars.config import DecodingSettings
from mars.control import Control
from mars.metrics import Count


def lane(verdicts: dict[int, bool], batches: Sequence[Count] = (), tokens: int = 10) -> BoardLane:
    """A lane with these verdicts; no model is needed to say where it stands."""
    settings, model = DecodingSettings(), SimpleNamespace(engine=None)
    found = BoardLane("a", "A", model, "sliding_window", settings, Control(None))  # type: ignore[arg-type]
    for number, right in verdicts.items():
        found.outcomes[number] = Outcome(text="", right=right, tokens=tokens + number, passes=5, reason="stop")
    found.batches.extend(batches)
    return found


def count(tokens: int, seconds: float) -> Count:
    return Count(tokens=tokens, passes=tokens, seconds=seconds)


def test_a_share_has_its_wilson_interval() -> None:
    found = standing(lane({0: True, 1: True, 2: False, 5: True}), lane({}))
    assert (found["n"], found["right"]) == (4, 3)
    assert found["interval"] == pytest.approx(wilson_interval(3, 4), abs=1e-5)
    assert found["tokensPerProblem"] == 10 + (0 + 1 + 2 + 5) / 4


def test_nothing_is_said_of_a_lane_without_outcomes() -> None:
    found = standing(lane({}), lane({0: True}))
    assert {found["interval"], found["tokensPerProblem"], found["tokensPerSecond"], found["speedup"]} == {None}
    assert found["tokensPerForward"] == 0


def test_pairs_are_the_problems_that_both_have_finished() -> None:
    this = lane({0: True, 1: True, 2: False, 3: False, 9: True})
    base = lane({0: True, 1: False, 2: True, 3: False, 7: True})
    found = pairs(this, base)
    assert found == {"n": 4, "both": 1, "onlyThis": 1, "onlyBaseline": 1, "p": 1.0}


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (0, 5, 2 / 32), (6, 0, 2 / 64), (3, 1, 10 / 16)])
def test_the_p_value_is_exact_mcnemars(gained: int, lost: int, p: float) -> None:
    n = gained + lost
    this = lane({number: number < gained for number in range(n)})
    base = lane({number: number >= gained for number in range(n)})
    assert pairs(this, base)["p"] == pytest.approx(p)


def test_speeds_compare_batches_that_both_finished() -> None:
    base = lane({}, [count(100, 2.0)])
    this = lane({}, [count(120, 1.0), count(500, 100.0)])
    found = standing(this, base)
    assert found["tokensPerSecond"] == pytest.approx(620 / 101, abs=0.01)
    assert found["speedup"] == pytest.approx((120 / 1.0) / (100 / 2.0))


def test_the_baseline_is_not_compared_with_itself() -> None:
    base = lane({0: True}, [count(100, 2.0)])
    found = standing(base, base)
    assert (found["speedup"], found["pairs"]) == (None, None)
    assert found["tokensPerSecond"] == 50


def test_a_lane_says_when_its_threshold_was_changed() -> None:
    this = lane({0: True})
    this.thresholds[:] = [0.95]
    assert not standing(this, this)["turned"]
    this.thresholds.append(0.9)
    assert standing(this, this)["turned"]

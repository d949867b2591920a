"""Speed at equal loss, by hand."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.frontiers import speed_at_loss


def rows(correct: int, n: int = 40, passes: int = 10) -> pd.DataFrame:
    right = np.arange(n) < correct
    return pd.DataFrame(
        {"task": "logic", "number": range(n), "correct": right, "tokens": 10, "passes": passes, "seconds": 1.0}
    )


def test_speed_at_loss_is_between_the_neighbours() -> None:
    baseline, runs = rows(40), [rows(38, passes=5), rows(30, passes=2)]  # losses 5 and 25 points at 2 and 5 tokens
    values = [speed_at_loss(runs, baseline, points)[0] for points in (0, 2.5, 5, 15, 25, 60)]
    assert values == pytest.approx([1, 1.5, 2, 3.5, 5, np.nan], nan_ok=True)
    assert np.isnan(speed_at_loss([], baseline, 2)[0]), "no setting loses so much"
    assert speed_at_loss([rows(40, passes=4)], baseline, 0)[0] == 2.5, "a faster setting without loss"
    dominated = [*runs, rows(20, passes=4)]
    assert speed_at_loss(dominated, baseline, 5)[0] == pytest.approx(2)
    assert speed_at_loss(runs, baseline, 5)[1].std() > 0
    with pytest.raises(ValueError, match="points must be >= 0, got -1"):
        speed_at_loss(runs, baseline, -1)

"""How much of the tokens per forward the clock sees."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis import figures


def test_efficiency_is_speed_up_over_tokens_per_forward_below_the_limit(of: Any, table: pd.DataFrame) -> None:
    points = figures.efficiency_points(table)
    row = of(points, "sliding_window", batch_size=1)
    assert row["efficiency"] == pytest.approx(row["speedup"] / row["tokens_per_forward"])
    figure = figures.efficiency(table)
    limit = next(shape for shape in figure.layout.shapes if shape.name and shape.name.startswith("limit"))
    assert (limit.x0, limit.x1) == (limit.y0, limit.y1)

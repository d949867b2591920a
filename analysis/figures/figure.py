"""A figure: the question that it answers, how to read it, and who draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`question` is its title; `points` gives the numbers that `draw` draws.

    Both take a table of `measure` and the measure of speed, `against`; if it has a `budget`, also `points`, the
    percentage points that a setting may lose.
    """

    question: str
    reading: str
    draw: Callable[..., go.Figure]
    points: Callable[..., pd.DataFrame]
    budget: bool = False

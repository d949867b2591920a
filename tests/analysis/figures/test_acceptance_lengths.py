"""How many tokens a pass accepts."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis import figures
from analysis.runs import RunStore


def test_acceptance_is_the_share_of_passes(of: Any, store: RunStore, table: pd.DataFrame) -> None:
    exact = of(table, "self_speculative")
    (bars,) = figures.acceptance(store, table[table["id"] == exact["id"]]).data
    assert sum(bars.y) == pytest.approx(1)
    counts = sum(
        pd.Series(lengths)
        for lengths in store.rows(exact["id"])["acceptance_lengths"].map(lambda x: [*x, *[0] * (9 - len(x))])
    )
    assert list(bars.y) == pytest.approx(list(counts[: len(bars.y)] / counts.sum()))
    assert list(bars.x) == list(range(1, len(bars.y) + 1))

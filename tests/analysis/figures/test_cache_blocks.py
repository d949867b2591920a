"""Speed-ups by cache block size and batch size."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis import figures


def test_caching_is_a_map_of_cache_blocks_and_batch_sizes(table: pd.DataFrame) -> None:
    ours, theirs = figures.caching(table).data
    assert (list(ours.x), list(ours.y)) == (["1", "4"], ["8", "32"])
    assert (2**ours.z).ravel() == pytest.approx([0.8, 0.8, 1.2, 1.2])
    assert ours.text[1][0].startswith("1.20×<br>1.20–")
    assert set(theirs.customdata.ravel()) <= set(table.loc[table["source"] == "published", "id"])

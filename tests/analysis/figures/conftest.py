"""A store with a bit of everything, its tables, and how to find a row of a table or the traces of a figure."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis import figures
from analysis.runs import RunStore


@pytest.fixture(scope="session")
def store(fabricate: Any) -> RunStore:
    """A bit of everything: thresholds, scores, block sizes, timed groups at two batch sizes, exact runs."""
    mars = fabricate.model("mars-b8")
    runs = [fabricate.run(), fabricate.run(mars, "self_speculative", accuracy=0.9, gain=3.0, layout="linear")]
    for threshold, accuracy_, gain in ((None, 0.9, 1.0), (0.95, 0.85, 2.0), (0.5, 0.6, 3.0)):
        runs.append(fabricate.run(mars, "sliding_window", accuracy=accuracy_, gain=gain, threshold=threshold))
    runs.append(fabricate.run(mars, "sliding_window", accuracy=0.8, gain=2.0, threshold=0.9, score="margin"))
    for size, loss, accuracy_ in ((4, True, 0.9), (8, False, 0.8), (4, False, 0.85)):
        model = fabricate.model(f"b{size}{loss}", block_size=size, sft_loss=loss)
        runs += [fabricate.run(model, "sliding_window", accuracy=accuracy_, threshold=at) for at in (None, 0.95)]
    for batch_size, speed in ((1, 100.0), (4, 300.0)):
        timed = {"batch_size": batch_size, "group": "plan/decoders"}
        runs.append(fabricate.run(mars, speed=speed, **timed))
        runs.append(fabricate.run(mars, "sliding_window", gain=2.0, speed=1.5 * speed, threshold=0.95, **timed))
        for cache, factor in ((8, 0.8), (32, 1.2)):
            runs.append(
                fabricate.run(
                    mars,
                    "block_cached",
                    gain=2.0,
                    speed=factor * speed,
                    threshold=0.95,
                    cache_block_size=cache,
                    **timed,
                )
            )
    return fabricate.store(runs)


@pytest.fixture(scope="session")
def table(store: RunStore) -> pd.DataFrame:
    return figures.measure(store)


@pytest.fixture(scope="session")
def of() -> Callable[..., pd.Series]:
    """`of(table, decoder, **fields)`: the one measured row that fits, with `__` for the dots of columns."""

    def found(table: pd.DataFrame, decoder: str, **fields: Any) -> pd.Series:
        rows = table[table["decoder"] == decoder]
        for name, value in fields.items():
            column = rows[name.replace("__", ".")]
            rows = rows[column.isna() if value is None else column == value]
        assert len(rows) == 1, rows[["id", "series", "threshold"]]
        return rows.iloc[0]

    return found


@pytest.fixture(scope="session")
def traces() -> Callable[[go.Figure, str], list[Any]]:
    """`traces(figure, words)`: those whose names have these words, wherever the names are folded."""

    def found(figure: go.Figure, words: str) -> list[Any]:
        return [trace for trace in figure.data if trace.name and words in trace.name.replace("<br>", " · ")]

    return found

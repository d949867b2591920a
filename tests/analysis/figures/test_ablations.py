"""Block sizes with and without the SFT loss."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis import figures


def test_ablation_draws_block_sizes_with_and_without_the_loss(traces: Any, table: pd.DataFrame) -> None:
    figure = figures.ablation(table[table["source"] == "measured"])
    assert [note.text for note in figure.layout.annotations] == ["one-token mode", "τ 0.95"]
    (one_token, at_threshold) = traces(figure, "without SFT loss")
    assert list(one_token.y) == [0.85, 0.8]
    assert [round(place) for place in one_token.x] == [0, 1]
    assert list(figure.layout.xaxis.ticktext) == ["4", "8"]
    assert (one_token.marker.symbol, one_token.line.dash) != (
        traces(figure, "with SFT loss")[0].marker.symbol,
        traces(figure, "with SFT loss")[0].line.dash,
    )
    assert at_threshold.xaxis == "x2"


def test_ablation_takes_the_models_that_saw_equally_much(fabricate: Any) -> None:
    shipped = {**fabricate.model("shipped"), "examples": 900}
    small = [fabricate.model(f"b{size}", block_size=size) for size in (4, 8)]
    runs = [
        fabricate.run(model, "sliding_window", problems=n) for model, n in ((shipped, 60), *((m, 40) for m in small))
    ]
    runs.append(fabricate.run(small[0], "sliding_window", tasks=("gsm8k",), problems=500))
    points = figures.ablation_points(figures.measure(fabricate.store(runs)))
    assert list(points["model.name"]) == ["b4", "b8"]
    assert set(points["n"]) == {80}

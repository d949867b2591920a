"""The cost of a threshold on IFEval: which runs are taken, what they are compared with, and the caption."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures
from analysis.figures.thresholds import TASK
from analysis.runs import RunStore

SETTINGS = ((None, 0.9, 1.0), (0.95, 0.9, 2.0), (0.5, 0.6, 5.0))
"""Threshold, accuracy and tokens per forward."""


def runs_of(fabricate: Any, name: str, fingerprint: str, **rest: Any) -> list[Any]:
    """An adapter of `fabricate`'s AR model under two τ, in one-token mode, and exactly."""
    model = {**fabricate.model(name), "fingerprint": fingerprint, "base": fabricate.run()[0]["model"]["fingerprint"]}
    place = {"tasks": (TASK,), **rest}
    swept = [
        fabricate.run(model, "sliding_window", threshold=at, accuracy=right, gain=gain, **place)
        for at, right, gain in SETTINGS
    ]
    return [*swept, fabricate.run(model, "self_speculative", accuracy=0.9, gain=3.0, layout="tree", **place)]


@pytest.fixture
def store(fabricate: Any) -> RunStore:
    """Two adapters and AR on all prompts; the same on fewer, on the clock, and an adapter in one-token mode alone."""
    whole = [fabricate.run(tasks=(TASK,), accuracy=0.8, problems=60, **rest) for rest in ({}, {"batch_size": 4})]
    both = [("smollm2-135m-gated", "0" * 16), ("smollm2-135m-merged", "1" * 16)]
    whole += [run for name, weights in both for run in runs_of(fabricate, name, weights, problems=60)]
    few = runs_of(fabricate, "smollm2-135m-gated", "0" * 16)
    timed = runs_of(fabricate, "smollm2-135m-gated", "0" * 16, problems=60, batch_size=1, group="ifeval/turns")
    alone = runs_of(fabricate, "another", "2" * 16, problems=60)[:1]
    return fabricate.store([*whole, *few, *timed, *alone])


def test_adapters_under_several_thresholds_on_most_prompts_are_drawn(store: RunStore) -> None:
    points = figures.thresholds_points(store)
    settings = ["one-token mode", "τ = 0.95", "τ = 0.5", "exact (tree)"]
    assert points["adapter"].tolist() == ["gated adapter"] * 4 + ["merged adapter"] * 4
    assert points["decoding"].tolist() == settings * 2
    assert set(points["n"]) == {60}
    assert points["ar_accuracy"].tolist() == pytest.approx([0.8] * 8)
    assert points["change"].tolist() == pytest.approx([0, 0, -30, 0] * 2)
    assert (points["accuracy_low"] < points["accuracy"]).all()


def test_each_adapter_has_a_line_through_its_thresholds_and_a_star(store: RunStore) -> None:
    figure, points = figures.thresholds(store), figures.thresholds_points(store)
    named = {trace.name: trace for trace in figure.data if trace.name}
    assert list(named) == [f"{name} adapter, {how}" for name in ("gated", "merged") for how in ("by τ", "exact")]
    assert list(named["gated adapter, by τ"].x) == points["tokens_per_forward"].tolist()[:3]
    assert list(named["merged adapter, exact"].text) == ["tree"]
    above, below = (trace for trace in figure.data if trace.mode == "text")
    assert list(above.text) == list(below.text) == ["", ".95", ".5"]
    assert list(above.y) == points["accuracy_high"].tolist()[:3]
    assert list(below.y) == points["accuracy_low"].tolist()[:3]
    assert [shape.y0 for shape in figure.layout.shapes][1] == pytest.approx(0.8)


def test_the_words_name_what_is_lost(store: RunStore) -> None:
    points = figures.thresholds_points(store)
    words = figures.thresholds_words(points)
    assert "against one-token mode: 2 of 4, not corrected for their number (τ = 0.5, gated adapter: −30.0 [" in words
    assert " [−42.5, −19.9] points; τ = 0.5, merged" in words
    assert "exact (tree) with the merged adapter: " in words
    assert words.endswith(" points.")
    kept = figures.thresholds_words(points[points["threshold"] != 0.5])
    assert ": none of 2, not corrected for their number. " in kept


def test_one_threshold_is_no_line(fabricate: Any) -> None:
    runs = runs_of(fabricate, "smollm2-135m-gated", "0" * 16)
    figure = figures.thresholds(fabricate.store(runs[:2]))
    assert not figure.data
    assert figure.layout.annotations[0].text.startswith("Nothing to draw")
    assert figures.thresholds_words(figures.thresholds_points(fabricate.store([]))) == ""

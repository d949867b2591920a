"""Claims 2 and 8: the SFT loss, and block diffusion."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(
    ("kept", "degraded", "verdict"),
    [(0.9, 0.8, Verdict.HOLDS), (0.8, 0.9, Verdict.FAILS), (0.9, 0.9, Verdict.FAILS), (0.89, 0.885, Verdict.OPEN)],
)
def test_sft_loss(find: Any, make: Any, mars: Any, kept: float, degraded: float, verdict: Verdict) -> None:
    """Accuracy at the largest block; 0.9 at the smallest."""
    runs = [
        make(mars(size, loss=loss), accuracy=0.9 if size == 4 else at, problems=200)
        for loss, at in ((True, kept), (False, degraded))
        for size in (4, 16)
    ]
    finding = find(2, runs)
    assert finding.verdict is verdict
    assert [row[0] for row in finding.tables[0].rows] == ["4", "16"]
    assert find(2, runs[:3]).verdict is Verdict.MISSING


def test_sft_loss_compares_models_that_saw_equally_much(find: Any, make: Any, mars: Any) -> None:
    shipped = make(mars(16, examples=900), accuracy=0.99)
    runs = [make(mars(size, loss=loss)) for loss in (True, False) for size in (4, 8, 16)]
    finding = find(2, [shipped, *runs])
    assert {run.model.examples for run in finding.runs} == {100}


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.5, Verdict.HOLDS), (0.88, Verdict.FAILS), (0.85, Verdict.OPEN)])
def test_block_diffusion(find: Any, make: Any, ar: Any, mars: Any, accuracy: float, verdict: Verdict) -> None:
    diffusion = mars(4, stage="block_diffusion")
    tried = [make(diffusion, "block_diffusion", accuracy=each) for each in (accuracy, accuracy - 0.2)]
    tried[1][0]["settings"]["threshold"] = 0.9
    tried[1][0]["id"] += "9"
    few = make(diffusion, "block_diffusion", accuracy=1.0, problems=5)
    runs = [make(ar()), make(mars(4)), make(ar(), problems=5), few, *tried]
    finding = find(8, runs)
    assert finding.verdict is verdict, "the more accurate setting, but never one on few problems"
    assert [row[2] for row in finding.tables[0].rows] == ["plain", "4True100mars"]

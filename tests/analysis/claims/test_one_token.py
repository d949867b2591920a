"""Claim 1: one-token mode matches AR."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(
    ("accuracy", "double", "verdict"),
    [
        (0.9, 0.9, Verdict.HOLDS),
        (0.95, 0.9, Verdict.HOLDS),
        (0.88, 0.9, Verdict.FAILS),
        (0.9, 0.92, Verdict.FAILS),
        (0.9, None, Verdict.MISSING),
        (0.8, None, Verdict.FAILS),
    ],
)
def test_one_token_mode(find: Any, one_token: Any, accuracy: float, double: float | None, verdict: Verdict) -> None:
    finding = find(1, one_token(accuracy, double))
    assert finding.verdict is verdict
    assert len(finding.tables[0].rows) == (1 if double is None else 2)


def test_one_token_mode_on_few_problems(find: Any, fabricate: Any, ar: Any, mars: Any) -> None:
    models = (ar(), ar(200, "double"), mars(4))
    finding = find(1, [fabricate.run(model) for model in models])
    assert finding.verdict is Verdict.OPEN
    assert "0.0 [−" in finding.measured[0]

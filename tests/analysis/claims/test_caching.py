"""Claims 4 and 10: the block cache against AR, and rows that do not wait against the block cache."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import Verdict


@pytest.mark.parametrize(("speed", "verdict"), [(150, Verdict.HOLDS), (90, Verdict.FAILS)])
def test_block_cache(find: Any, mars: Any, timed: Any, speed: float, verdict: Verdict) -> None:
    model = mars(8)
    runs = [timed(model, "autoregressive", 100)]
    for size, factor in ((8, 0.8), (32, 1.0)):
        runs.append(timed(model, "block_cached", speed * factor, threshold=0.95, cache_block_size=size))
    finding = find(4, runs)
    assert finding.verdict is verdict
    assert f"{speed / 100:.2f}×" in finding.measured[0]
    assert "with cache blocks of 32" in finding.measured[0]
    apart = [timed(model, "autoregressive", 100, group="other"), *runs[1:]]
    assert find(4, apart).verdict is Verdict.MISSING, "seconds of other groups cannot be compared"
    others = [timed(model, name, 100, 8, threshold=0.9) for name in ("autoregressive", "block_cached")]
    assert find(4, others).verdict is Verdict.MISSING, "the claim is about batch 4"


@pytest.mark.parametrize(("other", "verdict"), [(120, Verdict.HOLDS), (200, Verdict.OPEN)])
def test_block_cache_is_compared_on_its_own_weights_and_must_beat_every_ar_run_of_its_size(
    find: Any, ar: Any, mars: Any, timed: Any, other: float, verdict: Verdict
) -> None:
    model, small = mars(8), {**ar(900, "small"), "parameters": 400}
    runs = [timed(each, "autoregressive", speed) for each, speed in ((model, 100), (ar(), other))]
    runs.append(timed(small, "autoregressive", 500))
    finding = find(4, [*runs, timed(model, "block_cached", 150, threshold=0.95)])
    assert finding.verdict is verdict
    assert "1.50×" in finding.measured[0]
    [further] = finding.why
    assert f"against plain in the same turns, a model of this size, it is {150 / other:.2f}×" in further


@pytest.mark.parametrize(("speed", "verdict"), [(130, Verdict.HOLDS), (110, Verdict.FAILS), (120, Verdict.OPEN)])
def test_waiting(find: Any, mars: Any, timed: Any, speed: float, verdict: Verdict) -> None:
    """At batch 16; at 4 it is surely faster than both cache block sizes, at 1 slower, which does not count."""
    model, runs = mars(8), []
    for batch_size, fast in ((1, 10.0), (4, 130.0), (16, speed)):
        runs.append(timed(model, "sliding_window", fast, batch_size, threshold=0.95))
        for size, slow in ((8, 100), (32, 120)):
            options = {"threshold": 0.95, "cache_block_size": size}
            runs.append(timed(model, "block_cached", slow, batch_size, **options))
    finding = find(10, runs)
    assert finding.verdict is verdict
    assert len(finding.measured) == 2
    assert find(10, [run for run in runs if run[0]["settings"]["threshold"] is None]).verdict is Verdict.MISSING

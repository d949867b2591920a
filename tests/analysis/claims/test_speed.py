"""Claims 4, 6, 7, 10 and 12: verdicts on runs made for each."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, ClaimVerdict, judge, read_evidence

HOLDS, FAILS, OPEN, MISSING = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.OPEN, ClaimVerdict.MISSING


@pytest.mark.parametrize(("speed", "verdict"), [(150, HOLDS), (105, OPEN), (103, FAILS), (90, FAILS)])
def test_block_cache(find: Any, mars: Any, timed: Any, speed: float, verdict: ClaimVerdict) -> None:
    model = mars(8)
    runs = [timed(model, "autoregressive", 100)]
    for size, factor in ((8, 0.8), (32, 1.0)):
        runs.append(timed(model, "block_cached", speed * factor, threshold=0.95, cache_block_size=size))
    finding = find(4, runs)
    assert finding.verdict is verdict
    [row] = finding.comparisons
    assert row.measured["× AR"].startswith(f"{speed / 100:.2f}×")
    assert (row.compared["best cache block"], row.compared["CPU"]) == ("32", "a machine, 2 cores")
    apart = [timed(model, "autoregressive", 100, group="other"), *runs[1:]]
    assert find(4, apart).verdict is MISSING, "seconds of other groups cannot be compared"
    others = [timed(model, name, 100, 8, threshold=0.9) for name in ("autoregressive", "block_cached")]
    assert find(4, others).verdict is MISSING, "the claim is about batch 4"


@pytest.mark.parametrize(("speed", "verdict"), [(130, HOLDS), (110, FAILS), (120, OPEN)])
def test_waiting(find: Any, mars: Any, timed: Any, speed: float, verdict: ClaimVerdict) -> None:
    """At batch 16; at 4 it is surely faster than both cache block sizes, at 1 slower, which does not count."""
    model, runs = mars(8), []
    for batch_size, fast in ((1, 10.0), (4, 130.0), (16, speed)):
        runs.append(timed(model, "sliding_window", fast, batch_size, threshold=0.95))
        for size, slow in ((8, 100), (32, 120)):
            options = {"threshold": 0.95, "cache_block_size": size}
            runs.append(timed(model, "block_cached", slow, batch_size, **options))
    finding = find(10, runs)
    assert finding.verdict is verdict
    assert [row.verdict is None for row in finding.comparisons] == [True, False, False]
    assert {row.compared["CPU"] for row in finding.comparisons} == {"a machine, 2 cores"}
    assert find(10, [run for run in runs if run[0]["settings"]["threshold"] is None]).verdict is MISSING


@pytest.mark.parametrize(("gain", "verdict"), [(1.1, HOLDS), (2.0, FAILS)])
def test_jacobi(find: Any, make: Any, ar: Any, mars: Any, gain: float, verdict: ClaimVerdict) -> None:
    model = ar()
    runs = [make(model), make(model, "jacobi", gain=gain, draft_tokens=8), make(model, "jacobi", draft_tokens=2)]
    finding = find(6, runs)
    assert finding.verdict is verdict
    assert "with 8 draft tokens" in finding.headline
    assert [row.compared["draft tokens"] for row in finding.comparisons] == ["2", "8"]
    assert find(6, [make(model), make(mars(8), "jacobi")]).verdict is MISSING


@pytest.mark.parametrize(("speeds", "verdict"), [((130, 140), HOLDS), ((130, 90), FAILS), ((130, None), MISSING)])
def test_speculative(
    find: Any, ar: Any, mars: Any, timed: Any, speeds: tuple[float, float | None], verdict: ClaimVerdict
) -> None:
    plain, masked = ar(), mars(4)
    runs = [timed(plain, "speculative", speed, 1, draft=plain, draft_tokens=k) for speed, k in ((100, 4), (80, 2))]
    for draft, speed in zip((plain, masked), speeds, strict=True):
        if speed is not None:
            runs.append(timed(masked, "speculative", speed, 1, draft=draft, continuation=True, threshold=0.9))
    finding = find(7, runs)
    assert finding.verdict is verdict
    first = finding.comparisons[0].compared
    assert first == {"draft → target": "AR → AR (cpu, 1)", "setting": "K = 4"}, "the fastest setting of the baseline"
    without = timed(masked, "speculative", 500, 1, draft=plain)
    assert len(find(7, [*runs, without]).runs) == len(finding.runs), "a MARS target continues with its own masks"


def bench(low: float, batch_size: int = 4) -> dict[str, Any]:
    def result(decoder: str, factor: float) -> dict[str, Any]:
        speed = {"median": 100 * factor, "low": 90 * factor, "high": 110 * factor}
        over = {"median": factor, "low": factor * low / 2, "high": factor * 1.1}
        speeds = {"tokens_per_second": speed, "speedup_over_generate": over, "speedup_over_autoregressive": over}
        return {"contestant": decoder, "batch_size": batch_size, "bandwidth_share": None, **speeds}

    results = [result("generate", 1), result("autoregressive", 2), result("sliding_window@0.95", 3)]
    about = {"hardware": "a machine", "device": "cpu", "dtype": "float32", "repeats": 5, "n": 48}
    return {"results": results, "contestants": {}, "command": "python -m analysis bench", **about}


@pytest.mark.parametrize(("low", "verdict"), [(1.5, HOLDS), (0.8, OPEN)])
def test_fair_baseline(fabricate: Any, tmp_path: Path, low: float, verdict: ClaimVerdict) -> None:
    (tmp_path / "bench-here.json").write_text(json.dumps(bench(low)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "notes.json").write_text("[]")
    finding = judge(read_evidence(fabricate.store([]), tmp_path))[CLAIMS[-1]]
    assert finding.verdict is verdict
    assert (finding.commands, finding.n) == (["python -m analysis bench"], [48])
    [row] = finding.comparisons
    assert row.compared["CPU"] == "a machine"
    assert row.measured["fastest with τ"] == "`sliding_window@0.95`"
    assert row.measured["× our AR"].startswith("3.00×")


def test_a_batch_without_threshold_stays_in_the_table(fabricate: Any, tmp_path: Path) -> None:
    found = bench(1.5)
    found["results"] += bench(1.5, batch_size=8)["results"][:2]
    (tmp_path / "bench-here.json").write_text(json.dumps(found))
    first, second = judge(read_evidence(fabricate.store([]), tmp_path))[CLAIMS[-1]].comparisons
    assert [*first.measured] == [*second.measured]

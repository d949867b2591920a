"""Claim 12: the baseline is a fair one, by the benchmarks beside the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, Verdict, judge, read_evidence


def bench(low: float, batch_size: int = 4) -> dict[str, Any]:
    def result(contestant: str, factor: float) -> dict[str, Any]:
        speed = {"median": 100 * factor, "low": 90 * factor, "high": 110 * factor}
        over = {"median": factor, "low": factor * low / 2, "high": factor * 1.1}
        speeds = {"tokens_per_second": speed, "speedup_over_generate": over, "speedup_over_autoregressive": over}
        return {"contestant": contestant, "batch_size": batch_size, "bandwidth_share": None, **speeds}

    results = [result("generate", 1), result("autoregressive", 2), result("sliding_window@0.95", 3)]
    about = {"hardware": "a machine", "device": "cpu", "dtype": "float32", "repeats": 5, "n": 48}
    return {"results": results, "contestants": {}, "command": "python -m analysis bench", **about}


@pytest.mark.parametrize(("low", "verdict"), [(1.5, Verdict.HOLDS), (0.8, Verdict.OPEN)])
def test_fair_baseline(fabricate: Any, tmp_path: Path, low: float, verdict: Verdict) -> None:
    (tmp_path / "bench-here.json").write_text(json.dumps(bench(low)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "notes.json").write_text("[]")
    finding = judge(read_evidence(fabricate.store([]), tmp_path))[CLAIMS[-1]]
    assert finding.verdict is verdict
    assert finding.commands == ["python -m analysis bench"]
    row = finding.tables[0].rows[0]
    assert row[4] == "sliding_window@0.95"
    assert row[5].startswith("3.00×")

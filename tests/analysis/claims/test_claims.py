"""Every claim is there, and what they are judged from needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from analysis.claims import CLAIMS, Verdict, judge

ROOT = Path(__file__).parents[3]


def test_every_claim_is_there_once_and_missing_without_runs(evidence_of: Any) -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 13))
    assert [claim.number for claim in CLAIMS if claim.ours] == [9, 10, 11, 12]
    found = judge(evidence_of([]))
    assert {finding.verdict for finding in found.values()} == {Verdict.MISSING}
    assert all(finding.measured[0].startswith("needs ") for finding in found.values())


def test_no_torch_is_loaded() -> None:
    code = "import sys, analysis.claims, analysis.stats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

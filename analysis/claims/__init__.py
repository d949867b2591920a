"""The paper's claims and our own, each judged by a declared rule from the run store alone. No torch here.

`table` lists them. The rules in `accuracy` and `speed` compare runs that `evidence` reads, `judging` gives the
verdicts, `page` writes them down.
"""

from __future__ import annotations

from analysis.claims.evidence import Evidence, read_evidence
from analysis.claims.judging import Claim, ClaimVerdict, Finding
from analysis.claims.page import to_json, to_markdown
from analysis.claims.table import CLAIMS

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimVerdict",
    "Evidence",
    "Finding",
    "judge",
    "read_evidence",
    "to_json",
    "to_markdown",
]


def judge(evidence: Evidence) -> dict[Claim, Finding]:
    """Each claim with its finding, in order."""
    return {claim: claim.find(evidence) for claim in CLAIMS}

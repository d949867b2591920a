"""The paper's claims and our own, each judged by a declared rule from the run store alone. No torch here.

The rules in `accuracy` and `speed` compare runs that `evidence` reads and say what is claimed; `judging` gives the
verdicts, `page` writes them down.
"""

from __future__ import annotations

from analysis.claims import accuracy, judging, speed
from analysis.claims.evidence import Evidence, read_evidence
from analysis.claims.judging import Claim, ClaimVerdict, Finding
from analysis.claims.page import to_markdown

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimVerdict",
    "Evidence",
    "Finding",
    "accuracy",
    "judge",
    "read_evidence",
    "speed",
    "to_markdown",
]

CLAIMS = tuple(judging.CLAIMS[number] for number in sorted(judging.CLAIMS))


def judge(evidence: Evidence) -> dict[Claim, Finding]:
    """Each claim with its finding, in order."""
    return {claim: claim.find(evidence) for claim in CLAIMS}

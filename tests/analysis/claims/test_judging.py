"""The judge: verdicts of intervals, the worst of several, and numbers in words."""

from typing import Any

import pytest

from analysis.claims import CLAIMS, ClaimVerdict, Finding, judge
from analysis.claims.judging import Comparison, faster, verdict_of, worst
from analysis.stats.intervals import Interval


def test_every_claim_is_there_and_missing_without_runs(evidence_of: Any) -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 13))
    assert [claim.number for claim in CLAIMS if claim.ours] == [9, 10, 11, 12]
    found = judge(evidence_of([]))
    assert {finding.verdict for finding in found.values()} == {ClaimVerdict.MISSING}
    assert all(finding.needs for finding in found.values())


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(2, 1.5, 3), ClaimVerdict.HOLDS),
        (Interval(0, -1, 0.9), ClaimVerdict.FAILS),
        (Interval(1, 0.5, 2), ClaimVerdict.OPEN),
        (Interval(1, 1, 1), ClaimVerdict.OPEN),
    ],
)
def test_an_interval_is_judged_whole(interval: Interval, verdict: ClaimVerdict) -> None:
    assert faster(interval) is verdict


def test_the_worst_comparison_decides() -> None:
    assert worst([ClaimVerdict.HOLDS, ClaimVerdict.OPEN, ClaimVerdict.FAILS]) is ClaimVerdict.FAILS
    assert worst([ClaimVerdict.HOLDS, ClaimVerdict.MISSING]) is ClaimVerdict.MISSING
    assert worst([]) is ClaimVerdict.MISSING
    assert verdict_of(holds=True, fails=True) is ClaimVerdict.FAILS
    shown = Comparison(compared={"model": "a"}, measured={"gain": "2"})
    held = Comparison(compared={"model": "b"}, measured={"gain": "3"}, verdict=ClaimVerdict.HOLDS)
    assert Finding(comparisons=[shown, held]).verdict is ClaimVerdict.HOLDS, "what is only shown is not judged"
    assert Finding(comparisons=[held], missing="more").verdict is ClaimVerdict.MISSING
    assert str(held) == "model b: gain 3"

"""The judge: verdicts of intervals, the worst of several, and numbers in words."""

from typing import Any

import pytest

from analysis.claims import CLAIMS, ClaimVerdict, Finding, judge
from analysis.claims.judging import Comparison, faster, verdict_of, worst
from analysis.stats.intervals import Interval

HOLDS, FAILS, OPEN, MISSING = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.OPEN, ClaimVerdict.MISSING


def test_every_claim_is_there_and_missing_without_runs(evidence_of: Any) -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 13))
    assert [claim.number for claim in CLAIMS if claim.ours] == [9, 10, 11, 12]
    found = judge(evidence_of([]))
    assert {finding.verdict for finding in found.values()} == {MISSING}
    assert all(finding.needs for finding in found.values())


@pytest.mark.parametrize(
    ("bounds", "verdict"), [((2, 1.5, 3), HOLDS), ((0, -1, 0.9), FAILS), ((1, 0.5, 2), OPEN), ((1, 1, 1), OPEN)]
)
def test_an_interval_is_judged_whole(bounds: tuple[float, float, float], verdict: ClaimVerdict) -> None:
    assert faster(Interval(*bounds)) is verdict


def test_the_worst_comparison_decides() -> None:
    assert worst([HOLDS, OPEN, FAILS]) is FAILS
    assert worst([HOLDS, MISSING]) is MISSING
    assert worst([]) is MISSING
    assert verdict_of(holds=True, fails=True) is FAILS
    shown = Comparison(compared={"model": "a"}, measured={"gain": "2"})
    held = Comparison(compared={"model": "b"}, measured={"gain": "3"}, verdict=HOLDS)
    assert Finding(comparisons=[shown, held]).verdict is HOLDS, "what is only shown is not judged"
    assert Finding(comparisons=[held], missing="more").verdict is MISSING
    assert str(held) == "model b: gain 3"

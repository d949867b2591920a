"""The figures that a claim quotes from the paper."""

from __future__ import annotations

from typing import Any

from analysis.claims import CLAIMS


def test_claimed_figures_come_from_the_tables(evidence_of: Any) -> None:
    published = evidence_of([]).published
    claimed = {claim.number: claim.claimed(published) for claim in CLAIMS}
    for number_, words in {
        1: "30.4 against 28.7 of AR SFT",
        2: "from 28.4 to 22.2 without the SFT loss, and from 30.4 to 29.7 with it",
        3: "costs 1.0 to 1.6 points",
        4: "up to 1.71× AR, at batch 4 with cache blocks of 32; without a cache 0.49× at batch 8 and 0.23× at batch 16",
        6: "1.07 tokens per forward",
        7: "1.27× with a MARS target, 1.40× with both",
        8: "falls to 22.8",
        12: "28 ms per step at batch 4 where reading the weights takes 3.2 ms: 11%",
    }.items():
        assert words in claimed[number_]

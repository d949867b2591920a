"""Statistics of runs, with their intervals. Runs are the rows of docs/runs.md; no torch here.

`wilson_interval`, `accuracy`      a share and its Wilson interval
`tokens_per_forward`, `tokens_per_second`   of one run, with a bootstrap interval over problems
`paired_difference`, `speed_up`, `identical_texts`   of two runs on the same problems
`standings`                        Pareto frontier of many settings
`reliability`                      whether scores of mask proposals mean what they say
`Estimate`                         the median of repeated timings
"""

from __future__ import annotations

from analysis.stats.calibration import reliability
from analysis.stats.frontiers import Standing, standings
from analysis.stats.intervals import CONFIDENCE, Estimate, Interval, share, wilson_interval
from analysis.stats.operating_points import Candidate, OperatingPoint
from analysis.stats.pairs import PairedDifference, identical_texts, paired_difference, speed_up
from analysis.stats.resampling import accuracy, tokens_per_forward, tokens_per_second

__all__ = [
    "CONFIDENCE",
    "Candidate",
    "Estimate",
    "Interval",
    "OperatingPoint",
    "PairedDifference",
    "Standing",
    "accuracy",
    "identical_texts",
    "paired_difference",
    "reliability",
    "share",
    "speed_up",
    "standings",
    "tokens_per_forward",
    "tokens_per_second",
    "wilson_interval",
]

"""Statistics of runs, with their intervals: the front of the package. Runs are the rows of docs/runs.md; no torch here.

`wilson_interval`, `accuracy`      a share and its Wilson interval
`tokens_per_forward`, `tokens_per_second`   of one run, with a bootstrap interval over problems
`paired_difference`, `contrast`, `speed_up`, `identical_texts`   of two or more runs on the same problems
`standings`, `area`, `measured_area`, `speed_at_loss`   Pareto frontiers of many settings
`operating_point`                  the fastest setting whose loss is surely under so many points
`reliability`, `by_depth`, `calibration_error`   whether scores of mask proposals mean what they say
`Estimate`                         the median of repeated timings
"""

from __future__ import annotations

from analysis.stats.calibration import EDGES, by_depth, calibration_error, reliability
from analysis.stats.frontiers import Standing, area, measured_area, speed_at_loss, standings
from analysis.stats.intervals import CONFIDENCE, RESAMPLES, Estimate, Interval, share, wilson_interval
from analysis.stats.operating_points import Candidate, OperatingPoint, operating_point
from analysis.stats.pairs import (
    PairedDifference,
    contrast,
    identical_texts,
    paired,
    paired_difference,
    speed_up,
)
from analysis.stats.resampling import SPEEDS, accuracy, tokens_per_forward, tokens_per_second

__all__ = [
    "CONFIDENCE",
    "EDGES",
    "RESAMPLES",
    "SPEEDS",
    "Candidate",
    "Estimate",
    "Interval",
    "OperatingPoint",
    "PairedDifference",
    "Standing",
    "accuracy",
    "area",
    "by_depth",
    "calibration_error",
    "contrast",
    "identical_texts",
    "measured_area",
    "operating_point",
    "paired",
    "paired_difference",
    "reliability",
    "share",
    "speed_at_loss",
    "speed_up",
    "standings",
    "tokens_per_forward",
    "tokens_per_second",
    "wilson_interval",
]

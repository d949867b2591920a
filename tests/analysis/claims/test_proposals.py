"""Claims 5, 9 and 11: verdicts on runs made for each, and the reasons given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.claims import ClaimVerdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, ClaimVerdict.HOLDS), (1.5, ClaimVerdict.FAILS)])
def test_scores(find: Any, swept: Any, factor: float, verdict: ClaimVerdict) -> None:
    """Margin gains `factor` times what the others gain at the same accuracies."""
    runs = swept({None: (0.9, 1)})
    for score, thresholds in (("probability", (0.9, 0.6)), ("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more = factor if score == "margin" else 1.0
        points_of = dict(zip(thresholds, ((0.89, 2 * more), (0.86, 3 * more)), strict=True))
        runs += swept(points_of, score=score)
    finding = find(5, runs)
    assert finding.verdict is verdict
    assert [tuple(row.compared.values()) for row in finding.comparisons] == [
        ("probability", "0.9, 0.6"),
        ("margin", "0.8, 0.5"),
        ("entropy", "0.3, 1.2"),
    ]
    unlike = "At equal loss margin surely differs by more than 5 % from probability."
    assert finding.why == ([unlike] if factor > 1 else [])
    assert find(5, runs[:5]).verdict is ClaimVerdict.MISSING
    more = swept({None: (0.9, 1), 0.95: (0.895, 1.5), 0.9: (0.89, 2), 0.6: (0.86, 3)}, problems=800)
    assert {run.n for run in find(5, [*runs, *more]).runs} == {600}, "more runs of one score alone change nothing"
    for score, thresholds in (("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more += swept(dict(zip(thresholds, ((0.89, 2), (0.86, 3)), strict=True)), score=score, problems=800)
    assert {run.n for run in find(5, [*runs, *more]).runs} == {1600}, "the most problems count"


def test_scores_say_how_many_problems_would_decide_what_is_open(find: Any, swept: Any) -> None:
    runs = swept({None: (0.9, 1)}, problems=40)
    for score, thresholds, factor in (
        ("probability", (0.9, 0.6), 1.0),
        ("margin", (0.8, 0.5), 1.05),
        ("entropy", (0.3, 1.2), 2.5),
    ):
        points_of = dict(zip(thresholds, ((0.8875, 2 * factor), (0.7, 3 * factor)), strict=True))
        runs += swept(points_of, score=score, problems=40)
    unlike, needed = find(5, runs).why
    assert unlike == "At equal loss entropy surely differs by more than 5 % from probability."
    assert needed.startswith("A loss of 2 points is only 2 of 80 problems, so the point of comparison on each frontier")
    assert " is about " in needed
    assert "for margin" in needed
    assert "for entropy" not in needed


def test_scores_are_not_compared_at_a_loss_that_no_threshold_reaches(find: Any, swept: Any) -> None:
    """The last points would be 3 and 5 tokens per forward, which says how far each was followed and nothing else."""
    runs = swept({None: (0.9, 1), 0.9: (0.895, 2), 0.6: (0.7, 3)})
    for score, thresholds in (("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        runs += swept(dict(zip(thresholds, ((0.895, 2), (0.89, 5)), strict=True)), score=score)
    finding = find(5, runs)
    assert finding.verdict is ClaimVerdict.OPEN
    assert finding.headline == "no threshold tried of margin and entropy surely loses 2 points"
    [why] = finding.why
    assert (
        why
        == "No threshold tried of margin and entropy loses 2 points, so that more lenient ones have to be run first."
    )
    speeds = [row.measured["tokens/forward at 2 points lost"] for row in finding.comparisons]
    assert speeds[1:] == ["not reached"] * 2
    assert speeds[0] != "not reached"


def test_scores_whose_loss_is_not_sure_say_how_many_problems_would_make_it_so(find: Any, swept: Any) -> None:
    """Margin loses 3 points of 40 problems; entropy none."""
    runs = swept({None: (0.9, 1), 0.9: (0.895, 2), 0.6: (0.5, 3)}, problems=40)
    for score, thresholds, accuracy in (("margin", (0.8, 0.5), 0.875), ("entropy", (0.3, 1.2), 0.9)):
        runs += swept(dict(zip(thresholds, ((0.9, 2), (accuracy, 5)), strict=True)), score=score, problems=40)
    finding = find(5, runs)
    assert finding.verdict is ClaimVerdict.OPEN
    needed, unreached = finding.why
    assert needed.startswith("If the losses stay as measured, it takes about ")
    assert " for margin, whose most lenient threshold loses 2.5 [" in needed
    assert unreached.startswith("No threshold tried of entropy loses 2 points")


@pytest.mark.parametrize(
    ("gain", "text", "verdict"),
    [(3.0, "", ClaimVerdict.HOLDS), (3.0, "other", ClaimVerdict.FAILS), (1.7, "", ClaimVerdict.FAILS)],
)
def test_exact(find: Any, exact_runs: Any, gain: float, text: str, verdict: ClaimVerdict) -> None:
    finding = find(9, exact_runs(gain=gain, text=text))
    assert finding.verdict is verdict
    [row] = finding.comparisons
    assert row.measured["texts"] == f"{'0' if text else '1,200'} of 1,200"
    assert row.measured["gain"].endswith("over τ = 0.99"), "τ = 0.5 loses too much to count"


def test_exact_on_the_clock(find: Any, mars: Any, timed: Any, exact_runs: Any) -> None:
    model, runs = mars(8), exact_runs()
    for batch_size, speed in ((1, 150), (4, 130), (16, 90)):
        runs.append(timed(model, "autoregressive", 100, batch_size))
        runs.append(timed(model, "self_speculative", speed, batch_size))
        runs.append(timed(model, "sliding_window", 120, batch_size, threshold=0.99))
        runs.append(timed(model, "sliding_window", 500, batch_size, threshold=0.5))
    clock = find(9, runs).comparisons[1:]
    assert [row.compared["batch"] for row in clock] == ["1", "4", "16"]
    rivals = [row.measured["fastest within 1 point"] for row in clock]
    assert rivals == ["τ = 0.99"] * 3, "not τ = 0.5, which loses 20 points"
    assert {(row.verdict, row.compared["CPU"]) for row in clock} == {(None, "a machine, 2 cores")}


def test_exact_on_a_benchmark_has_the_speed_up_of_that_benchmark(find: Any, fabricate: Any, mars: Any) -> None:
    """The ratio of the mean speeds of questions: a short answer counts as much as a long one."""
    runs = []
    for decoder, seconds in (("autoregressive", [1.0, 1.0]), ("self_speculative", [0.25, 1.0])):
        entry, rows = fabricate.run(mars(4), decoder, tasks=("spec_bench",), problems=2, batch_size=1, group="g")
        runs.append(({**entry, "judged": False}, rows.assign(tokens=[10, 100], seconds=seconds)))
    [row] = find(9, runs).comparisons
    assert row.measured["× AR, mean of questions"].startswith(f"{(40 + 100) / (10 + 100):.2f}×")


@pytest.mark.parametrize(
    ("gain", "accuracy", "verdict"),
    [
        (2.5, 0.88, ClaimVerdict.HOLDS),
        (2.5, 0.8, ClaimVerdict.FAILS),
        (2.0, 0.88, ClaimVerdict.FAILS),
        (1.5, 0.88, ClaimVerdict.FAILS),
    ],
)
def test_the_extra_proposal(find: Any, swept: Any, gain: float, accuracy: float, verdict: ClaimVerdict) -> None:
    runs = swept({None: (0.9, 1), 0.95: (0.88, 2), 0.7: (0.8, 3)})
    runs += swept({0.95: (accuracy, gain), 0.7: (0.8, 4)}, extra_proposal=True)
    finding = find(11, runs)
    assert finding.verdict is verdict
    assert [row.compared["τ"] for row in finding.comparisons] == ["0.95", "0.7"]
    assert find(11, runs[:3]).verdict is ClaimVerdict.MISSING


@pytest.mark.parametrize(
    ("counts", "words"),
    [([3, 0, 0, 1, 1], "40.0 % in mars-b4 (+0.200 tokens per pass)"), ([5, 0, 0], "0.0 % in mars-b4 (+0.000 tokens")],
)
def test_how_many_passes_reach_the_extra_proposal(find: Any, fabricate: Any, counts: list[int], words: str) -> None:
    model = fabricate.model("mars-b4", block_size=4)
    runs = []
    for extra in (False, True):
        entry, rows = fabricate.run(model, "sliding_window", threshold=0.9, extra_proposal=extra, problems=2)
        runs.append((entry, rows.assign(acceptance_lengths=[np.array(counts)] * len(rows), passes=5, tokens=11)))
    assert words in find(11, runs).why[0]
